"""Identifying the client, the server and the call. All names are given by the other side and not trusted."""

from hashlib import sha256
from typing import Any

from mcp.server import ServerRequestContext
from mcp.types import CallToolRequestParams, Implementation, Tool
from starlette.requests import Request

from placet.hook.frameworks.mcp.retention import PREFIX
from placet.hook.json_text import encode_canonical_json
from placet.hook.tool_call import ToolCall

MAX_NAME_CHARACTERS = 100
THREAD_META, CALL_META = "placet/thread", "placet/call"
"""Keys in a request's `_meta`: the thread it belongs to, and the model's id of the call."""


def read_client_name(ctx: ServerRequestContext[Any, Any]) -> str:
    """Return the client's name."""
    params = ctx.session.client_params
    return _read_display_name(params.client_info if params is not None else None)


def describe_server(server: Implementation | None, scope: str, tool: Tool | None) -> str:
    """Return a suffix that names the server, with a digest of its scope and of the tool's description.

    Grants belong to an agent at a server: a grant for one server does not cover another, nor a tool whose
    description has changed.
    """
    if not scope:
        return ""
    described = [] if tool is None else [tool.description, tool.input_schema]
    mark = sha256(encode_canonical_json([scope, *described])).hexdigest()[:8]
    return f" at {_read_display_name(server) or 'a server'} ({mark})"


async def is_disconnected(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the HTTP connection of the request is gone, so that no one reads the response.

    Requests of newer clients are cancelled then; those of older protocol versions continue.
    """
    request = ctx.request if ctx.close_sse_stream is None else None
    return isinstance(request, Request) and await request.is_disconnected()


def identify_call(params: CallToolRequestParams, client: str, scope: str) -> tuple[ToolCall, str]:
    """Return the call and its key: the same for the same client, server, tool and arguments."""
    meta: dict[str, Any] = dict(params.meta or {})
    arguments = params.arguments or {}
    identity = [scope, client, meta.get(THREAD_META), meta.get(CALL_META), params.name, arguments]
    digest = sha256(encode_canonical_json(identity)).hexdigest()[:32]
    call_id = meta[CALL_META] if has_call_id(params) else f"call-{digest[:12]}"
    key = f"{PREFIX}{_to_key_part(client)}/{_to_key_part(params.name)}/{digest}"
    return ToolCall(id=call_id, name=params.name, arguments=arguments), key


def has_call_id(params: CallToolRequestParams) -> bool:
    """Return whether the client has named this call."""
    name = (params.meta or {}).get(CALL_META)
    return isinstance(name, str) and name != ""


def _to_key_part(text: str) -> str:
    """Return a readable part of a key."""
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in text[:40]) or "-"


def _read_display_name(who: Implementation | None) -> str:
    name = (who.title or who.name) if who is not None else ""
    return " ".join("".join(one if one.isprintable() else " " for one in name).split())[:MAX_NAME_CHARACTERS]
