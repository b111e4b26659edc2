"""The demo: POST /api/demo?type=TYPE opens a sample case without a key, only from this machine."""

import ipaddress
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from placet.cases.case import Subject
from placet.desk.draft import draft_from
from placet.desk.outbox import list_active_secrets
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseNotFound, InvalidToken, SignatureInvalid, ValidationFailed
from placet.http.asgi import read_body
from placet.http.route import HttpApi, pages
from placet.pages.renderer import PageRenderer
from placet.pages.view import DemoLink, HomeView
from placet.ports.identity import Principal
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.callback import verify_callback
from placet.protocol.service_paths import DOCS
from placet.reviews.registry import get_first_sample
from placet.server.page_replies import PageReplies
from placet.server.sample_dates import shift_dates

DEMO_CASES = "/api/demo"
CALLBACKS = f"{DEMO_CASES}/callbacks"
FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
DEMO = Principal(name=None)


class DemoPages(HttpApi):
    """Opens sample cases for requests from this machine."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        example: Callable[[str], tuple[dict[str, Any], Subject] | None],
        renderer: PageRenderer,
        replies: PageReplies,
    ) -> None:
        self._desk = desk
        self._example = example
        self._renderer = renderer
        self._replies = replies
        self.links: list[DemoLink] = []
        self._callback_listeners: list[Callable[[dict[str, Any]], None]] = []

    def add_callback_listener(self, listener: Callable[[dict[str, Any]], None]) -> None:
        """Call `listener` with the body of every callback that the demo receives."""
        self._callback_listeners.append(listener)

    @pages.get("/", "showDemo")
    async def home(self, request: Request) -> Response:
        """Show the home page with links to the sample cases."""
        _require_this_machine(request)
        base = self._desk.addresses.base
        language = self._replies.languages.of(request)
        view = HomeView(
            static_url=self._replies.static_url,
            links=tuple(self.links),
            docs_url=f"{base}{DOCS}",
            inbox_url=self._replies.inbox_address,
            language=language,
            page_url=f"{self._replies.prefix}/",
        )
        response = self._replies.page(self._renderer.render_home(view), language=language)
        return self._replies.finish(request, response)

    @pages.post(DEMO_CASES, "openDemoCase")
    async def open(self, request: Request) -> Response:
        """Open a sample case of the requested type; return the 202 of a HITL service."""
        _require_this_machine(request)
        type = request.query_params.get("type", get_first_sample())
        body = await self.open_sample(type)
        headers = {"cache-control": "no-store", "retry-after": "2"}
        return Response(body, status_code=202, media_type="application/json", headers=headers)

    async def open_sample(self, type: str) -> bytes:
        """Open a sample case and return its 202 body; its callbacks come back to this server."""
        found = self._example(type)
        if found is None:
            raise ValidationFailed(f"There is no sample of type {type[:50]!r}.")
        example, subject = found
        callback_url = self._desk.addresses.base + CALLBACKS
        draft = draft_from({**shift_dates(example, self._desk.now()), "callback_url": callback_url})
        opened = await self._desk.open(draft, DEMO, subject=subject)
        return opened.body

    @pages.post(CALLBACKS, "receiveDemoCallback")
    async def receive(self, request: Request) -> Response:
        """Receive a callback as an agent would, after verifying its signature."""
        endpoint = await self._desk.store.get_endpoint("", self._desk.addresses.base + CALLBACKS)
        secrets = list_active_secrets(endpoint, self._desk.now()) if endpoint else []
        body = await read_body(request.scope, request.receive, limit=self._desk.limits.max_body_bytes)
        try:
            verify_callback(body, request.headers, secrets=secrets, now=self._desk.now())
        except SignatureInvalid as error:
            raise InvalidToken(error.message) from error
        for listener in self._callback_listeners:
            listener(msgspec.json.decode(body))
        return Response(status_code=204)


def _require_this_machine(request: Request) -> None:
    """Raise CaseNotFound unless the request comes directly from this machine, not by a proxy or website."""
    forwarded = any(name in request.headers for name in FORWARDED)
    if forwarded or not _from_loopback(request) or not _to_loopback(request):
        raise CaseNotFound("The demo answers on loopback only.")


def _from_loopback(request: Request) -> bool:
    try:
        return ipaddress.ip_address(request.client.host if request.client else "").is_loopback
    except ValueError:
        return False


def _to_loopback(request: Request) -> bool:
    """Check the Host header, because a website can resolve its own name to this machine (DNS rebinding)."""
    return is_secure_or_loopback(f"http://{request.headers.get('host', '')}")
