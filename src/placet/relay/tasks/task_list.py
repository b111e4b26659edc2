"""Add tasks that the relay answers for to an agent's task list."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.json_fields import CONTEXT_ID, Json, get_state
from placet.relay.a2a.reply import A2AReply
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.relay_tasks import RelayTasks

PAGE_TOKEN = ("pageToken", "page_token")


async def add_relay_tasks(
    own: RelayTasks, subscription: Subscription, call: A2ACall, reply: A2AReply
) -> A2AReply:
    """A page of the caller's tasks: what waits for a person looks so, and what no agent knows comes first."""
    tasks = reply.result.get("tasks")
    if not isinstance(tasks, list):
        return reply
    shown = [await _view_listed_task(own, subscription, call, one) for one in tasks]
    known = {one.get("id") for one in shown if isinstance(one, dict)}
    list_relay_only_tasks = [
        one for one in await _list_relay_only_tasks(own, subscription, call) if one["id"] not in known
    ]
    if not list_relay_only_tasks and all(new is old for new, old in zip(shown, tasks, strict=True)):
        return reply
    result = reply.result | {"tasks": [*list_relay_only_tasks, *shown]}
    if isinstance(result.get("totalSize"), int):
        result["totalSize"] += len(list_relay_only_tasks)
    document = reply.document | {"result": result} if reply.dialect.rpc else result
    return replace(reply, document=document)


async def _view_listed_task(own: RelayTasks, subscription: Subscription, call: A2ACall, task: Any) -> Any:
    task_id = task.get("id") if isinstance(task, dict) else None
    if not isinstance(task_id, str):
        return task
    entry = await own.find(subscription, task_id)
    if entry is None or (entry.hold_id is None and entry.ending is None):
        asks = own.guard is not None and subscription.sink.input_required == "hold"
        return _hide_input_request(task) if asks else task
    return own.view(call.dialect, entry)


def _hide_input_request(task: Json) -> Json:
    """A task whose question nobody has met yet: whoever asks for it by its name has it held."""
    status = task.get("status")
    if get_state(status) != "input-required" or not isinstance(status, dict):
        return task
    working = "working" if status["state"] == "input-required" else "TASK_STATE_WORKING"
    kept = {name: value for name, value in status.items() if name != "message"}
    return task | {"status": kept | {"state": working}}


async def _list_relay_only_tasks(
    own: RelayTasks, subscription: Subscription, call: A2ACall
) -> Sequence[Json]:
    """Tasks that only the relay knows, on the first page that could have them."""
    asked = _get_list_params(call)
    if own.guard is None or any(asked.get(name) for name in PAGE_TOKEN):
        return []
    context_id = next((asked[name] for name in CONTEXT_ID if asked.get(name)), None)
    found = [own.view(call.dialect, one) for one in await own.guard.list_relay_only_tasks(subscription)]
    return [
        one
        for one in found
        if (context_id is None or one["contextId"] == context_id)
        and asked.get("status") in (None, "", "TASK_STATE_UNSPECIFIED", one["status"]["state"])
    ]


def _get_list_params(call: A2ACall) -> dict[str, Any]:
    if call.dialect.rpc:
        return call.params
    return {name: values[-1] for name, values in parse_qs(call.query).items()}
