"""Add tasks that the relay answers for to an agent's task list."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.json_format import CONTEXT_ID, Json, get_state
from placet.relay.a2a.reply import A2AReply
from placet.relay.tasks.relay_tasks import RelayTasks
from placet.relay.tenants import Subscription

PAGE_TOKEN = ("pageToken", "page_token")


async def add_relay_tasks(
    relay_tasks: RelayTasks, subscription: Subscription, call: A2ACall, reply: A2AReply
) -> A2AReply:
    """Return a page of the caller's tasks. Held tasks are shown as held; tasks of the relay come first."""
    tasks = reply.result.get("tasks")
    if not isinstance(tasks, list):
        return reply
    listed = [await _view_listed_task(relay_tasks, subscription, call, task) for task in tasks]
    listed_ids = {task.get("id") for task in listed if isinstance(task, dict)}
    added = [
        task
        for task in await _list_relay_only_tasks(relay_tasks, subscription, call)
        if task["id"] not in listed_ids
    ]
    if not added and all(new is old for new, old in zip(listed, tasks, strict=True)):
        return reply
    result = reply.result | {"tasks": [*added, *listed]}
    if isinstance(result.get("totalSize"), int):
        result["totalSize"] += len(added)
    document = reply.document | {"result": result} if reply.dialect.rpc else result
    return replace(reply, document=document)


async def _view_listed_task(
    relay_tasks: RelayTasks, subscription: Subscription, call: A2ACall, listed: Any
) -> Any:
    """Return a listed task as the caller may see it."""
    task_id = listed.get("id") if isinstance(listed, dict) else None
    if not isinstance(task_id, str):
        return listed
    task = await relay_tasks.find(subscription, task_id)
    if task is None or not task.is_kept_by_relay:
        holds_input_requests = relay_tasks.can_hold and subscription.sink.input_required == "hold"
        return _hide_input_request(listed) if holds_input_requests else listed
    return relay_tasks.view(call.dialect, task)


def _hide_input_request(task: Json) -> Json:
    """Return the task without its input request, which could not be held yet."""
    status = task.get("status")
    if get_state(status) != "input-required" or not isinstance(status, dict):
        return task
    working = "working" if status["state"] == "input-required" else "TASK_STATE_WORKING"
    kept = {name: value for name, value in status.items() if name != "message"}
    return task | {"status": kept | {"state": working}}


async def _list_relay_only_tasks(
    relay_tasks: RelayTasks, subscription: Subscription, call: A2ACall
) -> Sequence[Json]:
    """Return the tasks that the agent does not know, for the first page only."""
    params = _get_list_params(call)
    if any(params.get(name) for name in PAGE_TOKEN):
        return []
    context_id = next((params[name] for name in CONTEXT_ID if params.get(name)), None)
    views = [
        relay_tasks.view(call.dialect, task) for task in await relay_tasks.list_relay_only_tasks(subscription)
    ]
    return [
        view
        for view in views
        if (context_id is None or view["contextId"] == context_id)
        and params.get("status") in (None, "", "TASK_STATE_UNSPECIFIED", view["status"]["state"])
    ]


def _get_list_params(call: A2ACall) -> dict[str, Any]:
    if call.dialect.rpc:
        return call.params
    return {name: values[-1] for name, values in parse_qs(call.query).items()}
