"""Who calls a tool, and where it is, as people will read it. Each gives its own name, so none is trusted."""

from hashlib import sha256
from typing import Any

from mcp.server import ServerRequestContext
from mcp.types import Implementation

LONGEST_NAME = 100


def client_name(ctx: ServerRequestContext[Any, Any]) -> str:
    """Which assistant calls."""
    params = ctx.session.client_params
    return _readable(params.client_info if params is not None else None)


def place(server: Implementation | None, scope: str) -> str:
    """Where a call goes: the server's own name, and what tells it from its namesakes.

    Grants are for an agent at its place: what was allowed at one server is not allowed at another.
    """
    mark = sha256(scope.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f" at {_readable(server) or 'a server'} ({mark})" if scope else ""


def brief(text: str) -> str:
    """A part of a key that people can read."""
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in text[:40]) or "-"


def _readable(who: Implementation | None) -> str:
    name = (who.title or who.name) if who is not None else ""
    return " ".join("".join(one if one.isprintable() else " " for one in name).split())[:LONGEST_NAME]
