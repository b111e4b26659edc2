"""Receive the presses of buttons: by webhook, or by listening where a platform allows it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from placet.channels.interaction_handler import InteractionHandler
from placet.channels.registry import can_listen, tracks_delivery
from placet.errors import CaseNotFound, InvalidToken, PlacetError, SettingsError, SignatureInvalid
from placet.http.asgi import read_body
from placet.http.route import HttpApi, pages
from placet.ports.channel import Channel, Interaction, WebhookRequest

MAX_WEBHOOK_BYTES = 256 * 1024
LISTEN_AGAIN_AFTER_S = 30.0
WEBHOOK_PATH = "/notify/webhooks/{channel}"
# With one of these set, the platform calls the webhook, and refuses to be asked.
WEBHOOK_SECRETS: Mapping[str, str] = {"telegram": "PLACET_TELEGRAM_WEBHOOK_SECRET"}

log = logging.getLogger("placet.notify")


class InteractionReceiver(HttpApi):
    """Receives interactions for all channels of a server, and hands each to `process` once."""

    def __init__(
        self,
        platforms: Mapping[str, Sequence[Channel]],
        *,
        process: Callable[[Interaction], Awaitable[str]],
        environ: Mapping[str, str],
    ) -> None:
        self._platforms = platforms
        self._handlers = {
            name: InteractionHandler(channels[0], process) for name, channels in platforms.items()
        }
        self._listening = [
            name
            for name in platforms
            if can_listen(name, environ) and not environ.get(WEBHOOK_SECRETS.get(name, ""))
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._failing: dict[str, str] = {}

    def start(self) -> None:
        """Start to listen where no public address is needed."""
        self._tasks = [asyncio.create_task(self._listen(name)) for name in self._listening]

    async def stop(self) -> None:
        """Stop listening, and finish the answers that were taken."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for handler in self._handlers.values():
            await handler.finish()

    def list_concerns(self) -> list[str]:
        """Return what an operator should look at: the platforms that cannot be listened to."""
        return [f"Button presses in {name} are not received: {why}" for name, why in self._failing.items()]

    @pages.post(WEBHOOK_PATH, "receiveInteraction")
    @pages.get(WEBHOOK_PATH, "confirmWebhook")
    async def receive(self, request: Request) -> Response:
        """Take a webhook request of a platform: presses of buttons, or the check of the address."""
        name = request.path_params["channel"]
        handler = self._handlers.get(name)
        if handler is None:
            raise CaseNotFound("There is nothing at this address.")
        call = WebhookRequest(
            method=request.method,
            headers={key.lower(): value for key, value in request.headers.items()},
            body=await read_body(request.scope, request.receive, limit=MAX_WEBHOOK_BYTES),
            query=dict(request.query_params),
        )
        try:
            result = await handler.handle_webhook(call)
            if tracks_delivery(name):
                for channel in self._platforms[name][1:]:
                    _ = await channel.handle_webhook(call)
        except SignatureInvalid as error:
            raise InvalidToken(error.message) from None
        except SettingsError as error:
            log.warning("webhook_refused channel=%s error=%s", name, error.message)
            raise CaseNotFound("There is nothing at this address.") from None
        headers = {"content-type": result.content_type, "cache-control": "no-store"}
        return Response(result.body, status_code=result.status, headers=headers)

    async def _listen(self, name: str) -> None:
        while True:
            try:
                await self._handlers[name].listen()
            except PlacetError as error:
                self._report(name, error.message)
            except Exception as error:
                log.exception("listening_failed channel=%s", name)
                self._failing[name] = type(error).__name__
            await asyncio.sleep(LISTEN_AGAIN_AFTER_S)

    def _report(self, name: str, reason: str) -> None:
        if self._failing.get(name) != reason:
            log.warning("listening_failed channel=%s error=%s", name, reason)
        self._failing[name] = reason
