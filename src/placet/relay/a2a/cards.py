"""Agent cards: list the interfaces of an agent, and rewrite its card for callers of the relay."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from placet.relay.a2a.dialects import Dialect, ProtocolBinding, Version
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json

WELL_KNOWN_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""The paths of the card below an agent's URL: the current one and that of earlier versions."""
MAX_INTERFACES = 32
SCHEME = "placet"
_BINDINGS: dict[str, ProtocolBinding] = {"JSONRPC": "JSONRPC", "HTTP+JSON": "HTTP+JSON"}
_encode = msgspec.json.Encoder(order="sorted").encode


class AgentInterface(Struct, frozen=True, kw_only=True):
    """One URL of an agent and the dialect it uses there."""

    dialect: Dialect
    url: str
    tenant: str | None = None


Serves = Callable[[AgentInterface], bool]


def parse_card(body: bytes) -> Json:
    """Return the card in a body. Raises A2AError if the body is not an agent card."""
    try:
        card = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise A2AError("agent_response", "The agent's card is not valid JSON.") from None
    if not isinstance(card, dict) or not isinstance(card.get("name"), str):
        raise A2AError("agent_response", "The agent's card is not a JSON object with a name.")
    return card


def list_interfaces(card: Json) -> list[AgentInterface]:
    """Return the interfaces in dialects that the relay supports, in the card's order.

    Reads the fields of 1.0 and of 0.3.
    """
    found = [_parse_interface(one) for one in _list_objects(card.get("supportedInterfaces"))]
    version = _parse_version(card.get("protocolVersion"), default="0.3")
    found.append(_build_interface(card.get("preferredTransport", "JSONRPC"), version, card.get("url")))
    found += [
        _build_interface(one.get("transport"), version, one.get("url"))
        for one in _list_objects(card.get("additionalInterfaces"))
    ]
    return list(dict.fromkeys(one for one in found if one is not None))[:MAX_INTERFACES]


def rewrite_card(card: Json, url: str, *, serves: Serves) -> Json:
    """Return the card for callers of the relay, where the agent's URL is `url`.

    Replaces every URL with `url`, and the security schemes with the relay's API key. Removes interfaces
    that the relay does not serve, and signatures, which the changes invalidate. Keeps all other fields.
    """
    kept = {name: value for name, value in card.items() if name not in ("signatures", "security")}
    modern = [
        one
        for one in _list_objects(card.get("supportedInterfaces"))
        if _is_served(_parse_interface(one), serves)
    ]
    if "supportedInterfaces" in card:
        kept["supportedInterfaces"] = [one | {"url": url} for one in modern]
    _rewrite_legacy(kept, card, url, serves)
    if not modern and "url" not in kept:
        raise A2AError("agent_response", "The agent's card offers no interface that the relay serves.")
    _require_relay_credential(kept)
    return kept


def add_grpc_interface(card: Json, address: str, agent_id: str) -> Json:
    """Return the card with the relay's gRPC interface, if the agent has a 1.0 interface to translate to.

    All agents share one gRPC address, so the caller names the agent in `tenant`.
    """
    offered = _list_objects(card.get("supportedInterfaces"))
    modern = [
        one for one in offered if (found := _parse_interface(one)) is not None and not found.dialect.legacy
    ]
    if not modern:
        return card
    tenant = next((one["tenant"] for one in modern if one.get("tenant")), None)
    grpc_interface = {
        "url": address,
        "protocolBinding": "GRPC",
        "protocolVersion": "1.0",
        "tenant": f"{agent_id}/{tenant}" if tenant else agent_id,
    }
    return card | {"supportedInterfaces": [*offered, grpc_interface]}


def compute_etag(card: Json) -> str:
    """Return a strong ETag of the card's content."""
    return f'"{hashlib.sha256(_encode(card)).hexdigest()[:32]}"'


def _rewrite_legacy(kept: Json, card: Json, url: str, serves: Serves) -> None:
    version = _parse_version(card.get("protocolVersion"), default="0.3")
    listed = _list_objects(card.get("additionalInterfaces"))
    others = [
        one
        for one in listed
        if _is_served(_build_interface(one.get("transport"), version, one.get("url")), serves)
    ]
    if "additionalInterfaces" in card:
        kept["additionalInterfaces"] = [one | {"url": url} for one in others]
    if "url" not in card:
        return
    preferred = _build_interface(card.get("preferredTransport", "JSONRPC"), version, card.get("url"))
    if _is_served(preferred, serves):
        kept["url"] = url
    elif others:
        kept["url"], kept["preferredTransport"] = url, others[0]["transport"]
    else:
        del kept["url"]
        kept.pop("preferredTransport", None)


def _require_relay_credential(card: Json) -> None:
    description = "An API key of the relay. The relay sends its own credentials to the agent."
    if "supportedInterfaces" in card:
        scheme: Json = {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": description}}
        card["securityRequirements"] = [{"schemes": {SCHEME: {"list": []}}}]
    else:
        scheme = {"type": "http", "scheme": "bearer", "description": description}
        card["security"] = [{SCHEME: []}]
    card["securitySchemes"] = {SCHEME: scheme}
    if isinstance(card.get("skills"), list):
        security_fields = ("security", "securityRequirements")
        card["skills"] = [
            {name: value for name, value in skill.items() if name not in security_fields}
            if isinstance(skill, dict)
            else skill
            for skill in card["skills"]
        ]


def _is_served(interface: AgentInterface | None, serves: Serves) -> bool:
    return interface is not None and serves(interface)


def _parse_interface(one: Json) -> AgentInterface | None:
    version = _parse_version(one.get("protocolVersion"), default="1.0")
    tenant = one.get("tenant")
    return _build_interface(
        one.get("protocolBinding"), version, one.get("url"), tenant if isinstance(tenant, str) else None
    )


def _build_interface(
    binding: Any, version: Version | None, url: Any, tenant: str | None = None
) -> AgentInterface | None:
    known = _BINDINGS.get(binding) if isinstance(binding, str) else None
    if known is None or version is None or not isinstance(url, str) or not url:
        return None
    return AgentInterface(dialect=Dialect(known, version), url=url, tenant=tenant or None)


def _parse_version(value: Any, *, default: Version) -> Version | None:
    if value is None or value == "":
        return default
    if not isinstance(value, str):
        return None
    if value == "1.0" or value.startswith("1.0."):
        return "1.0"
    return "0.3" if value == "0.3" or value.startswith("0.3.") else None


def _list_objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
