"""Build push configs for tasks that the agent does not know yet."""

from typing import Any

from placet.relay.a2a.builders import wrap_rpc_result
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_NAMES, Dialect
from placet.relay.a2a.json_fields import Json
from placet.relay.push.configs import PushTarget, build_target_fields


def build_config(target: PushTarget, config_id: str, task_id: str, dialect: Dialect) -> Json:
    """Return a config as an agent would return it."""
    config = {"id": config_id, **build_target_fields(target, dialect)}
    if not dialect.legacy:
        return {"taskId": task_id, **config}
    if dialect.rpc:
        return {"taskId": task_id, "pushNotificationConfig": config}
    return {"name": f"tasks/{task_id}/pushNotificationConfigs/{config_id}", "pushNotificationConfig": config}


def build_config_list(configs: list[Json], dialect: Dialect) -> Any:
    """Return several configs: a bare list in 0.3 over JSON-RPC, a page in all other dialects."""
    return configs if not dialect.proto else {"configs": configs}


def build_answer(result: Any, call: A2ACall) -> Json:
    """Return the whole response to the call."""
    return wrap_rpc_result(result, call.dialect, call.rpc_id)


def build_create_call(target: PushTarget, config_id: str, task_id: str, dialect: Dialect) -> A2ACall:
    """Return the call that creates a config."""
    config = build_config(target, config_id, task_id, dialect)
    if dialect.rpc:
        document = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": RPC_NAMES[dialect, "push_create"],
            "params": config,
        }
        return A2ACall(dialect=dialect, operation="push_create", document=document, rpc_id=1)
    if dialect.legacy:
        config = {"parent": f"tasks/{task_id}", "configId": config_id, "config": config}
    return A2ACall(dialect=dialect, operation="push_create", document=config, path_task=task_id)
