"""Routes served in raw ASGI, indexed so that a request finds its handler without a router."""

from collections.abc import Awaitable, Callable, Iterable

from placet.http.asgi import RawReply, Receive, Scope, Send
from placet.http.route import Route

RawHandler = Callable[[Scope, Receive, str], Awaitable[RawReply]]
StreamHandler = Callable[[Scope, Receive, Send, str], Awaitable[None]]


class RawTable:
    """Raw routes by fixed path, and those of the form `/prefix/{variable}/verb` by their verb.

    A handler is None where the reply is streamed; its handler is then in `streams`.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self.fixed: dict[str, dict[str, RawHandler | None]] = {}
        self.verbs: dict[str, dict[str, RawHandler | None]] = {}
        self.streams: dict[str, StreamHandler] = {}
        prefixes: set[str] = set()
        for route in routes:
            if route.handling not in ("raw", "raw_stream"):
                continue
            prefix, variable, rest = route.path.partition("{")
            verb = rest.partition("}/")[2]
            if variable:
                prefixes.add(prefix)
            index, key = (self.verbs, verb) if variable else (self.fixed, route.path)
            if route.handling == "raw_stream":
                self.streams[key] = route.handler
            handler = route.handler if route.handling == "raw" else None
            methods = index.setdefault(key, {})
            for method in list_methods(route):
                methods[method] = handler
        if len(prefixes) != 1:
            raise ValueError(f"Raw routes with a variable must share one prefix, not {sorted(prefixes)}.")
        (self.prefix,) = prefixes


def list_methods(route: Route) -> tuple[str, ...]:
    """Return the methods that a route serves: HEAD wherever there is GET."""
    return ("GET", "HEAD") if route.method == "GET" else (route.method,)
