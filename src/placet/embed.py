"""Embed Placet in your own ASGI app: create it, mount it and return its 202 from a handler."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from placet.bootstrap.server import ServerParts, build
from placet.cases.call_receipt import CallReceipt
from placet.cases.wire import build_poll_response
from placet.desk.api_keys import RESERVED
from placet.desk.case_changes import CaseChanges
from placet.desk.draft import draft_from
from placet.errors import (
    CaseNotFound,
    InvalidToken,
    NotPermitted,
    PlacetError,
    RateLimited,
    RequestError,
    SettingsError,
    Unavailable,
    ValidationFailed,
)
from placet.http.asgi import Receive, Scope, Send
from placet.http.error_replies import describe_error
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.ports.verifier import EvidenceVerifier
from placet.protocol import review_types
from placet.protocol.conversion import convert_input
from placet.protocol.poll import PollResponse, RespondedBy
from placet.settings import build_settings
from placet.text.characters import is_one_line, is_storable

Who = str | Principal | None
AuthenticateRequest = Callable[[Request], Who | Awaitable[Who]]
Identifier = Callable[[Request], RespondedBy | Awaitable[RespondedBy | None] | None]
IN_HOUSE = "in-house"
REFUSALS: Mapping[int, type[PlacetError]] = {403: NotPermitted, 404: CaseNotFound, 429: RateLimited}


class Placet:
    """An ASGI app to mount, with a method for each standard review type and `ask` for any type.

    `authenticate(request)` returns the principal of a request, or None for an anonymous caller; without it,
    the API keys in the database are used. A case belongs to the sender of its handler's request, and only
    the sender may poll it. `identify(request)` returns the person who answers on a page, if your app knows
    them. The database opens with the first request, or with `lifespan`.
    """

    def __init__(
        self,
        *,
        base_url: str,
        db: str = "placet.db",
        authenticate: AuthenticateRequest | None = None,
        identify: Identifier | None = None,
        verifier: EvidenceVerifier | None = None,
        store: Store | None = None,
        **settings: Any,
    ) -> None:
        self.settings = build_settings({"base_url": base_url, "db": db, **settings})
        self._authenticator = authenticate
        self._identifier = identify
        self._verifier = verifier
        self._store = store
        self._parts: ServerParts | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changes: CaseChanges | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request."""
        if scope["type"] == "lifespan":
            await self._run_own_lifespan(receive, send)
            return
        try:
            parts = await self.parts()
        except PlacetError as error:
            if scope["type"] != "http":
                raise
            await _flatten_error(Request(scope), error)(scope, receive, send)
            return
        await parts.app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """For your app's `lifespan`: opens the database at the start and closes it in order at the end."""
        await self.parts()
        try:
            yield
        finally:
            await self.aclose()

    async def parts(self) -> ServerParts:
        """Return the server's parts, started on first use in the running event loop."""
        loop = asyncio.get_running_loop()
        if self._parts is not None and self._loop is loop:
            return self._parts
        async with self._lock:
            if self._parts is None or self._loop is not loop:
                self._parts, self._loop, self._changes = await self._start(), loop, None
        return self._parts

    async def _start(self) -> ServerParts:
        """Build and start all parts; the relay must not forward messages before its inspection runs."""
        parts = await build(
            self.settings,
            store=self._store,
            authenticate=self._build_authenticate() if self._authenticator else None,
            verifier=self._verifier,
            identify=self._identify if self._identifier else None,
        )
        try:
            await parts.start()
        except BaseException:
            await parts.stop()
            raise
        return parts

    async def aclose(self) -> None:
        """Finish accepted writes, end event streams and close the database."""
        if self._parts is not None:
            parts, self._parts = self._parts, None
            await parts.stop()

    # Questions

    async def approval(self, prompt: str, *, artifact: Any, **rest: Any) -> Response:
        """Ask to approve, change or reject an artifact."""
        return await self.ask(review_types.APPROVAL, prompt, shown={"artifact": artifact}, **rest)

    async def selection(self, prompt: str, *, options: Sequence[Any], **rest: Any) -> Response:
        """Ask to choose among options, each with `id` and `title`."""
        return await self.ask(review_types.SELECTION, prompt, shown={"options": list(options)}, **rest)

    async def input(self, prompt: str, *, form: Mapping[str, Any], **rest: Any) -> Response:
        """Ask for facts by a form with `fields` or `steps`."""
        return await self.ask(review_types.INPUT, prompt, shown={"form": dict(form)}, **rest)

    async def confirmation(self, prompt: str, *, items: Sequence[Any] = (), **rest: Any) -> Response:
        """Ask to confirm what is about to happen, item by item."""
        return await self.ask(
            review_types.CONFIRMATION, prompt, shown={"items": list(items)} if items else {}, **rest
        )

    async def escalation(self, prompt: str, *, error: Any, **rest: Any) -> Response:
        """Report an error and ask how to continue."""
        return await self.ask(review_types.ESCALATION, prompt, shown={"error": error}, **rest)

    async def custom(
        self,
        type: str,
        prompt: str,
        *,
        actions: Sequence[str],
        affirmative_actions: Sequence[str] = (),
        **rest: Any,
    ) -> Response:
        """Ask a question of your own `x-…` type with your own actions; name those that are a yes."""
        return await self.ask(
            type, prompt, actions=list(actions), affirmative_actions=list(affirmative_actions), **rest
        )

    async def ask(
        self,
        type: str,
        prompt: str,
        *,
        request: Request | None = None,
        owner: str | None = IN_HOUSE,
        shown: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Response:
        """Open a case and return the 202 response. It belongs to `owner`, or to the sender of `request`.

        `fields` are those of POST /v1/cases: message, timeout, default_action, callback_url, inline_actions …
        Raises ValidationFailed for an invalid question, and InvalidToken for an anonymous caller.
        """
        parts = await self.parts()
        principal = await self._identify_owner(request, owner)
        draft = draft_from(
            {"type": type, "prompt": prompt, "context": {**(context or {}), **(shown or {})}, **fields}
        )
        opened = await parts.desk.open(draft, principal, idempotency_key=idempotency_key)
        return Response(
            opened.body,
            status_code=202,
            media_type="application/json",
            headers={"cache-control": "no-store", "retry-after": "2"},
        )

    # Answers

    async def status(
        self, case_id: str, *, request: Request | None = None, owner: str | None = IN_HOUSE
    ) -> PollResponse:
        """Return the state of a case for its owner; raise CaseNotFound for anyone else."""
        parts = await self.parts()
        return build_poll_response(
            await parts.desk.get_current_case(case_id, await self._identify_owner(request, owner))
        )

    async def answer(
        self,
        case_id: str,
        action: str,
        data: Mapping[str, Any] | None = None,
        *,
        responded_by: RespondedBy | None = None,
        request: Request | None = None,
        owner: str | None = IN_HOUSE,
    ) -> PollResponse:
        """Record what a person answered on your own page, the `review_url` of the case.

        Raises NotPermitted for a case that is shown on our page.
        """
        parts = await self.parts()
        case = await parts.desk.answer_for_reviewer(
            case_id,
            await self._identify_owner(request, owner),
            action=action,
            data=dict(data or {}),
            responded_by=_require_storable_person(responded_by),
        )
        return build_poll_response(case)

    async def cancel(
        self,
        case_id: str,
        *,
        request: Request | None = None,
        owner: str | None = IN_HOUSE,
        reason: str | None = None,
    ) -> PollResponse:
        """Withdraw a case; raises AlreadyClosed or CaseExpired if it is closed."""
        parts = await self.parts()
        principal = await self._identify_owner(request, owner)
        return build_poll_response(await parts.desk.cancel(case_id, principal, reason=reason))

    async def wait_for_end(
        self,
        case_id: str,
        *,
        at_most: float,
        request: Request | None = None,
        owner: str | None = IN_HOUSE,
    ) -> bool:
        """Return whether the case closed within `at_most` seconds; it returns as soon as it closes."""
        parts = await self.parts()
        principal = await self._identify_owner(request, owner)
        if self._changes is None:
            self._changes = CaseChanges(parts.store)
        with self._changes.following(case_id) as change, suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                while (await parts.desk.get_current_case(case_id, principal)).live:
                    await change.wait()
                    change.clear()
                return True
        return False

    async def report_calls(
        self,
        case_id: str,
        receipts: Sequence[Mapping[str, str]],
        *,
        request: Request | None = None,
        owner: str | None = IN_HOUSE,
    ) -> None:
        """Record what became of the calls of a decided case; the first receipt of each call counts."""
        parts = await self.parts()
        principal = await self._identify_owner(request, owner)
        reported = convert_input(list(receipts), tuple[CallReceipt, ...], ValidationFailed, "receipts")
        await parts.desk.report_calls(case_id, principal, reported)

    @property
    def exception_handlers(self) -> dict[Any, Any]:  # FastAPI and Starlette ask for different types
        """For your app's `exception_handlers`: Placet's errors in a handler become flat JSON errors."""
        return {RequestError: _flatten_error, Unavailable: _flatten_error}

    async def _identify_owner(self, request: Request | None, owner: str | None) -> Principal:
        """Return the owner of the case: the request's sender, or `owner`; raise InvalidToken for None."""
        if request is None:
            principal = Principal(name=owner)
        else:
            principal = await (await self.parts()).authenticate(request.scope)
        if principal.name is None:
            raise InvalidToken("Not authenticated.")
        return principal

    def _build_authenticate(self) -> Callable[[Scope], Awaitable[Principal]]:
        async def authenticate(scope: Scope) -> Principal:
            if self._authenticator is None:
                raise SettingsError("authenticate is not set.")
            try:
                who = self._authenticator(Request(scope))
                found = await who if inspect.isawaitable(who) else who
            except HTTPException as error:
                raise _build_refusal(error) from error
            return _require_principal(found)

        return authenticate

    async def _identify(self, request: Request) -> RespondedBy | None:
        found = self._identifier(request) if self._identifier else None
        return _require_storable_person(await found if inspect.isawaitable(found) else found)

    async def _run_own_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.parts()
        except Exception as error:  # with only an exception, the server would start anyway
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})


def _require_principal(found: object) -> Principal:
    if isinstance(found, str | Principal) and _find_name(found).startswith(RESERVED):
        raise InvalidToken(f"Names that begin with {RESERVED} are reserved for the relay.")
    if isinstance(found, Principal):
        return found
    if found is not None and not isinstance(found, str):
        raise SettingsError("authenticate must return a name, a Principal, or None for an anonymous caller.")
    return Principal(name=found) if found else Principal(name=None, scopes=frozenset())


def _require_storable_person(found: object) -> RespondedBy | None:
    """Return what `identify` returned; raise SettingsError if it cannot be stored with an answer."""
    if found is None:
        return None
    said: list[object] = [found.name, found.email] if isinstance(found, RespondedBy) else [found]
    texts = [text for text in said if isinstance(text, str)]
    if not isinstance(found, RespondedBy) or len(texts) < len([one for one in said if one is not None]):
        raise SettingsError("identify must return RespondedBy(name=…, email=…) with strings, or None.")
    if not all(is_storable(text) and is_one_line(text) for text in texts):
        raise SettingsError("identify returned a name or an email with control characters or line ends.")
    return found


def _find_name(found: str | Principal) -> str:
    return found if isinstance(found, str) else found.name or ""


def _build_refusal(error: HTTPException) -> PlacetError:
    """Return the error for an HTTPException that the authenticate function raised."""
    kind = REFUSALS.get(error.status_code, InvalidToken if error.status_code < 500 else Unavailable)
    # FastAPI lets the detail be anything; the flat error's message is text.
    return kind(error.detail if isinstance(error.detail, str) else None)


def _flatten_error(request: Request, error: Exception) -> Response:
    status, body, extra = describe_error(error)
    headers = {"cache-control": "no-store", **{name.decode(): value.decode() for name, value in extra}}
    return Response(body, status_code=status, media_type="application/json", headers=headers)
