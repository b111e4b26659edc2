"""Serve the page on which a person with an invitation creates a passkey."""

import logging
from collections.abc import Callable
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from placet.cases.tokens import digest_token
from placet.errors import CaseNotFound, SessionEnded, VerificationFailed
from placet.http.asgi import read_body
from placet.http.route import HttpApi, pages
from placet.pages.renderer import PageRenderer
from placet.pages.verification_view import NewPasskeyView
from placet.pages.view import MessageView
from placet.ports.passkey_registration import PasskeyRegistration
from placet.ports.passkey_store import PasskeyInvitation, PasskeyStore
from placet.protocol.service_paths import PASSKEYS
from placet.server.csrf import require_own_page
from placet.server.page_replies import PageReplies
from placet.server.page_requests import read_form

log = logging.getLogger("placet")

MAX_FORM_BYTES = 50_000


class PasskeyPages(HttpApi):
    """Serves `/passkeys/new`, the address in an invitation."""

    def __init__(
        self,
        *,
        store: PasskeyStore,
        registration: PasskeyRegistration | None,
        renderer: PageRenderer,
        replies: PageReplies,
        service_name: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._registration = registration
        self._renderer = renderer
        self._replies = replies
        self._service_name = service_name
        self._now = clock

    @pages.get("/passkeys/new", "showPasskeyRegistration")
    async def show(self, request: Request) -> Response:
        """Show the invitation. Changes nothing: link previews open it too."""
        token = request.query_params.get("token", "")
        try:
            registration, invitation = await self._find_invitation(token)
        except CaseNotFound as error:
            return self._show_ended(request, error.status)
        return self._show(request, invitation, token, await registration.describe(invitation))

    @pages.post("/passkeys/new", "registerPasskey")
    async def register(self, request: Request) -> Response:
        """Store the passkey that the person's device created; this uses up the invitation."""
        try:
            require_own_page(request, self._replies.origin)
            form = dict(read_form(await read_body(request.scope, request.receive, limit=MAX_FORM_BYTES)))
            token = form.get("token", "")
            registration, invitation = await self._find_invitation(token)
        except (CaseNotFound, SessionEnded) as error:
            return self._show_ended(request, error.status)
        try:
            passkey = await registration.register(invitation, form.get("credential", ""), now=self._now())
        except VerificationFailed as error:
            options = await registration.describe(invitation)
            return self._show(request, invitation, token, options, error)
        log.info("passkey_created passkey=%s email=%s", passkey.id[:12], passkey.email)
        view = self._build_view(request, invitation, is_done=True, is_synced=passkey.is_synced)
        return self._reply(request, view)

    async def _find_invitation(self, token: str) -> tuple[PasskeyRegistration, PasskeyInvitation]:
        if self._registration is None:  # browsers create no passkeys for this address
            raise CaseNotFound()
        invitation = await self._store.get_passkey_invitation(digest_token(token))
        if invitation is None or self._now() >= invitation.expires_at:
            raise CaseNotFound()
        return self._registration, invitation

    def _show(
        self,
        request: Request,
        invitation: PasskeyInvitation,
        token: str,
        options: str,
        error: VerificationFailed | None = None,
    ) -> Response:
        problem = error.message if error else None
        view = self._build_view(request, invitation, token=token, options=options, problem=problem)
        return self._reply(request, view, error.status if error else 200)

    def _build_view(
        self,
        request: Request,
        invitation: PasskeyInvitation,
        *,
        token: str = "",
        options: str = "",
        problem: str | None = None,
        is_done: bool = False,
        is_synced: bool = False,
    ) -> NewPasskeyView:
        return NewPasskeyView(
            service=self._service_name,
            person=invitation.name or invitation.email,
            token=token,
            options=options,
            register_url=f"{self._replies.prefix}{PASSKEYS}",
            static_url=self._replies.static_url,
            problem=problem,
            is_done=is_done,
            is_synced=is_synced,
            language=self._replies.languages.of(request),
        )

    def _reply(self, request: Request, view: NewPasskeyView, status: int = 200) -> Response:
        response = self._replies.page(
            self._renderer.render_new_passkey(view), status=status, language=view.language
        )
        return self._replies.finish(request, response)

    def _show_ended(self, request: Request, status: int) -> Response:
        language = self._replies.languages.of(request)
        view = MessageView(name="no_invitation", static_url=self._replies.static_url, language=language)
        page = self._renderer.render_message(view)
        return self._replies.finish(request, self._replies.page(page, status=status, language=language))
