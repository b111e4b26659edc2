"""Push configs in calls and replies: find and replace the target address, in every dialect."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from placet.relay.a2a.call import PUSH_CONFIG_FIELDS, A2ACall
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import Json, get_text

CONFIG_PARENT_FIELDS = frozenset({*PUSH_CONFIG_FIELDS, "config", "configuration"})
TARGET_FIELDS = ("url", "token", "authentication")
MAX_DEPTH = 8
MAX_URL = 2048
MAX_CREDENTIAL = 8192
TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105 - the name of a header
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


class PushTarget(Struct, frozen=True, kw_only=True):
    """Where a caller wants to be told, in its own words: kept by the relay and shown to nobody else."""

    url: str
    token: Any = None
    authentication: Any = None

    def headers(self) -> dict[str, str]:
        """What the caller wants to see with each notification; raises A2AError for what is no header."""
        found = {}
        if self.token not in (None, ""):
            found[TOKEN_HEADER] = _check_header_value(self.token, "token")
        scheme, credentials = _parse_authentication(self.authentication)
        if scheme and credentials:
            found["Authorization"] = f"{scheme} {credentials}"
        return found


def may_contain_config(call: A2ACall) -> bool:
    """Whether there could be a push config in a call; in most there is no place for one."""
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
    """The caller's address in a call that asks for notifications; raises A2AError for what is none."""
    found = list(_find_configs(call.params, top=call.operation == "push_create", depth=0))
    if not found:
        return None
    if len(found) > 1:
        raise A2AError("params", "A call carries one push notification config at most.")
    config = found[0]
    url = config["url"]
    if not isinstance(url, str) or len(url) > MAX_URL:
        raise A2AError("params", f"The push notification's URL must be text of {MAX_URL} characters.")
    if not url:
        return None
    address = PushTarget(url=url, token=config.get("token"), authentication=config.get("authentication"))
    address.headers()
    return address


def get_config_id(call: A2ACall) -> str | None:
    """The id that the config has, or that is asked for."""
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
    """The call with the relay's own address in the place of the caller's; all else of the config is kept."""
    ours = build_target_fields(
        PushTarget(url=url, token=token, authentication=build_bearer_authentication(token)), call.dialect
    )
    params = _replace_targets(call.params, ours, top=call.operation == "push_create")
    document = (call.document or {}) | {"params": params} if call.dialect.rpc else params
    return replace(call, document=document)


def list_config_urls(result: Any) -> list[str]:
    """The address of every config in an answer."""
    return [config["url"] for config in _find_answer_configs(result, 0) if isinstance(config["url"], str)]


def find_config_id(result: Any) -> str | None:
    """The id of the first config in an answer, as the agent gave it."""
    config = next(_find_answer_configs(result, 0), None)
    return get_text(config, ("id",))


def restore_push_targets(
    result: Any, known: Mapping[str, PushTarget], dialect: Dialect, depth: int = 0
) -> Any:
    """An answer with the callers' addresses in the place of the relay's; None if nothing of it is theirs.

    A config with an address that is not in `known` was not made here and is nobody's business here. Raises
    A2AError for an answer that cannot be looked through.
    """
    if depth > MAX_DEPTH:
        raise A2AError("agent_response", "The agent's answer is nested too deeply.")
    if isinstance(result, list):
        kept = [restore_push_targets(one, known, dialect, depth + 1) for one in result]
        return [one for one in kept if one is not None]
    if not isinstance(result, dict):
        return result
    if "url" in result:
        address = known.get(result["url"]) if isinstance(result["url"], str) else None
        return None if address is None else _replace_target_fields(result, address, dialect)
    changed = {name: restore_push_targets(value, known, dialect, depth + 1) for name, value in result.items()}
    return None if any(changed[name] is None and result[name] is not None for name in result) else changed


def _find_configs(holder: Any, *, top: bool, depth: int) -> Iterator[Json]:
    """Every object with an address, wherever an agent may look for one."""
    if depth > MAX_DEPTH:
        raise A2AError("params", "The push notification config is nested too deeply.")
    if isinstance(holder, list):
        for one in holder:
            yield from _find_configs(one, top=top, depth=depth + 1)
    elif isinstance(holder, dict):
        if top and "url" in holder:
            yield holder
        if not CONFIG_PARENT_FIELDS.isdisjoint(holder):
            for name in CONFIG_PARENT_FIELDS & holder.keys():
                yield from _find_configs(holder[name], top=True, depth=depth + 1)


def _replace_targets(holder: Any, ours: Json, *, top: bool) -> Any:
    if isinstance(holder, list):
        return [_replace_targets(one, ours, top=top) for one in holder]
    if not isinstance(holder, dict):
        return holder
    changed = {
        name: _replace_targets(value, ours, top=True) if name in CONFIG_PARENT_FIELDS else value
        for name, value in holder.items()
    }
    return changed | ours if top and "url" in holder else changed


def build_bearer_authentication(token: str) -> Json:
    """How an agent is told to show its token."""
    return {"scheme": "Bearer", "credentials": token}


def _find_answer_configs(value: Any, depth: int) -> Iterator[Json]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for one in value:
            yield from _find_answer_configs(one, depth + 1)
    elif isinstance(value, dict):
        if "url" in value:
            yield value
        for inner in value.values():
            yield from _find_answer_configs(inner, depth + 1)


def build_target_fields(address: PushTarget, dialect: Dialect) -> Json:
    """The caller's own words in a config, as this dialect spells them."""
    own = {
        "url": address.url,
        "token": address.token,
        "authentication": _translate_authentication(address.authentication, dialect),
    }
    return {name: value for name, value in own.items() if value is not None}


def _replace_target_fields(config: Json, address: PushTarget, dialect: Dialect) -> Json:
    kept = {name: value for name, value in config.items() if name not in TARGET_FIELDS}
    return kept | build_target_fields(address, dialect)


def _translate_authentication(authentication: Any, dialect: Dialect) -> Any:
    """An `authentication` in the one form or the other: 0.3 has a list of schemes."""
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
    """Scheme and credentials of an `authentication`, of which 0.3 has a list of schemes."""
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
    if not isinstance(value, str) or len(value) > MAX_CREDENTIAL or not _HEADER_VALUE.fullmatch(value):
        raise A2AError("params", f"A push notification's {name} must be printable ASCII.")
    return value
