"""Push notification configs in calls and replies: find, replace and build them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from placet.relay.a2a.call import MAX_DEPTH, PUSH_CONFIG_FIELDS, PUSH_TARGET_FIELDS, A2ACall
from placet.relay.a2a.dialects import RPC_NAMES, Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json, get_text, wrap_rpc_result

CONFIG_PARENT_FIELDS = frozenset({*PUSH_CONFIG_FIELDS, "config", "configuration"})
MAX_URL_LENGTH = 2048
MAX_CREDENTIAL_LENGTH = 8192
TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105 - the name of a header
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


class PushTarget(Struct, frozen=True, kw_only=True):
    """The address and credentials that a caller gave for push notifications. The relay keeps them secret."""

    url: str
    token: Any = None
    authentication: Any = None

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate a notification; raise A2AError if a value is not a header."""
        found = {}
        if self.token not in (None, ""):
            found[TOKEN_HEADER] = _check_header_value(self.token, "token")
        scheme, credentials = _parse_authentication(self.authentication)
        if scheme and credentials:
            found["Authorization"] = f"{scheme} {credentials}"
        return found


def may_contain_config(call: A2ACall) -> bool:
    """Return whether a call may contain a push config. False is certain and cheap."""
    params = call.params
    if call.operation == "push_create":
        return True
    if CONFIG_PARENT_FIELDS.isdisjoint(params):
        return False
    inner: Any = params.get("configuration")
    if not isinstance(inner, dict) or len(CONFIG_PARENT_FIELDS.intersection(params)) > 1:
        return True
    return "url" in inner or not CONFIG_PARENT_FIELDS.isdisjoint(inner)


def find_push_target(call: A2ACall) -> PushTarget | None:
    """Return the push target in a call, or None; raise A2AError if a config is invalid."""
    found = list(_find_configs(call.params, top=call.operation == "push_create", depth=0))
    if not found:
        return None
    if len(found) > 1:
        raise A2AError("params", "The call has several push notification configs. Send at most one.")
    config = found[0]
    url = config["url"]
    if not isinstance(url, str) or len(url) > MAX_URL_LENGTH:
        raise A2AError(
            "params", f"The push notification's URL must be a string of at most {MAX_URL_LENGTH} characters."
        )
    if not url:
        return None
    target = PushTarget(url=url, token=config.get("token"), authentication=config.get("authentication"))
    target.headers()  # raises if a value cannot be sent
    return target


def get_config_id(call: A2ACall) -> str | None:
    """Return the id of the config that the call creates or names, or None."""
    if call.path_push is not None:
        return call.path_push
    if call.operation in ("push_get", "push_delete"):
        names = ("pushNotificationConfigId", "push_notification_config_id")
        return get_text(call.params, names) or (
            None if call.dialect.legacy else get_text(call.params, ("id",))
        )
    found = next(_find_configs(call.params, top=call.operation == "push_create", depth=0), None)
    return get_text(found, ("id",))


def replace_push_target(call: A2ACall, url: str, token: str) -> A2ACall:
    """Return the call with the relay's address in place of the caller's. Other fields do not change."""
    fields = build_target_fields(
        PushTarget(url=url, token=token, authentication=build_bearer_authentication(token)), call.dialect
    )
    params = _replace_targets(call.params, fields, top=call.operation == "push_create")
    document = (call.document or {}) | {"params": params} if call.dialect.rpc else params
    return replace(call, document=document)


def list_config_urls(result: Any) -> list[str]:
    """Return the address of each config in a response."""
    return [config["url"] for config in _find_result_configs(result, 0) if isinstance(config["url"], str)]


def find_config_id(result: Any) -> str | None:
    """Return the id that the agent gave to the first config in a response, or None."""
    config = next(_find_result_configs(result, 0), None)
    return get_text(config, ("id",))


def restore_push_targets(
    result: Any, known: Mapping[str, PushTarget], dialect: Dialect, depth: int = 0
) -> Any:
    """Return a response with the caller's addresses in place of the relay's, or None if it has none of them.

    A config whose address is not in `known` is removed: the relay did not create it for this caller. Raises
    A2AError if the response is nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise A2AError("agent_response", "The agent's response is nested too deeply.")
    if isinstance(result, list):
        kept = [restore_push_targets(one, known, dialect, depth + 1) for one in result]
        return [one for one in kept if one is not None]
    if not isinstance(result, dict):
        return result
    if "url" in result:
        target = known.get(result["url"]) if isinstance(result["url"], str) else None
        return None if target is None else _replace_target_fields(result, target, dialect)
    changed = {name: restore_push_targets(value, known, dialect, depth + 1) for name, value in result.items()}
    return None if any(changed[name] is None and result[name] is not None for name in result) else changed


def _find_configs(value: Any, *, top: bool, depth: int) -> Iterator[Json]:
    """Yield each object with an address, in every field that an agent may read."""
    if depth > MAX_DEPTH:
        raise A2AError("params", "The push notification config is nested too deeply.")
    if isinstance(value, list):
        for one in value:
            yield from _find_configs(one, top=top, depth=depth + 1)
    elif isinstance(value, dict):
        if top and "url" in value:
            yield value
        if not CONFIG_PARENT_FIELDS.isdisjoint(value):
            for name in CONFIG_PARENT_FIELDS & value.keys():
                yield from _find_configs(value[name], top=True, depth=depth + 1)


def _replace_targets(value: Any, fields: Json, *, top: bool) -> Any:
    if isinstance(value, list):
        return [_replace_targets(one, fields, top=top) for one in value]
    if not isinstance(value, dict):
        return value
    changed = {
        name: _replace_targets(inner, fields, top=True) if name in CONFIG_PARENT_FIELDS else inner
        for name, inner in value.items()
    }
    return changed | fields if top and "url" in value else changed


def build_bearer_authentication(token: str) -> Json:
    """Return the `authentication` of a config that tells the agent to send a bearer token."""
    return {"scheme": "Bearer", "credentials": token}


def _find_result_configs(value: Any, depth: int) -> Iterator[Json]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for one in value:
            yield from _find_result_configs(one, depth + 1)
    elif isinstance(value, dict):
        if "url" in value:
            yield value
        for inner in value.values():
            yield from _find_result_configs(inner, depth + 1)


def build_target_fields(target: PushTarget, dialect: Dialect) -> Json:
    """Return the fields of a config that hold the target, in this dialect."""
    fields = {
        "url": target.url,
        "token": target.token,
        "authentication": _translate_authentication(target.authentication, dialect),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _replace_target_fields(config: Json, target: PushTarget, dialect: Dialect) -> Json:
    kept = {name: value for name, value in config.items() if name not in PUSH_TARGET_FIELDS}
    return kept | build_target_fields(target, dialect)


def _translate_authentication(authentication: Any, dialect: Dialect) -> Any:
    """Return the `authentication` in this dialect: 0.3 has a list of schemes, 1.0 has one scheme."""
    if not isinstance(authentication, dict):
        return authentication
    if dialect.legacy and "schemes" not in authentication and "scheme" in authentication:
        kept = {name: value for name, value in authentication.items() if name != "scheme"}
        return {"schemes": [authentication["scheme"]]} | kept
    if not dialect.legacy and "scheme" not in authentication and authentication.get("schemes"):
        kept = {name: value for name, value in authentication.items() if name != "schemes"}
        return {"scheme": authentication["schemes"][0]} | kept
    return authentication


def _parse_authentication(authentication: Any) -> tuple[str | None, str | None]:
    """Return the scheme and credentials of an `authentication` in either dialect."""
    if authentication is None:
        return None, None
    if not isinstance(authentication, dict):
        raise A2AError("params", "A push notification's authentication must be an object.")
    schemes = authentication.get("schemes")
    if schemes is not None and not isinstance(schemes, list):
        raise A2AError("params", "A push notification's schemes must be a list.")
    scheme = authentication.get("scheme") or next(iter(schemes or []), None)
    credentials = authentication.get("credentials")
    if not scheme or not credentials:
        return None, None
    if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
        raise A2AError("params", "A push notification's authentication scheme must be one word.")
    return scheme, _check_header_value(credentials, "credentials")


def _check_header_value(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_CREDENTIAL_LENGTH or not _HEADER_VALUE.fullmatch(value):
        raise A2AError(
            "params",
            f"A push notification's {name} must be printable ASCII"
            f" of at most {MAX_CREDENTIAL_LENGTH} characters.",
        )
    return value


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
