"""Handle the interactions of one channel within the platform's deadline, each once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from placet.errors import PlacetError
from placet.ports.channel import Channel, Interaction, WebhookRequest, WebhookResult

MAX_REMEMBERED = 10_000
ACKNOWLEDGE_WITHIN_S = 2.0  # the strictest platforms wait for three seconds
# The reply to the person who pressed a button, by the status code of the answer.
REPLIES = {
    200: "Your answer was recorded.",
    401: "This button does not work any more. Open the link to answer.",
    403: "This answer cannot be given here. Open the link to answer.",
    404: "This question is not there any more.",
    409: "This question is closed already. Your answer was not recorded.",
    410: "This came too late. Your answer was not recorded.",
    429: "Too many answers came at once. Nothing was recorded; press again in a minute.",
}
NOT_RECORDED = "The service did not take this answer. Open the link to answer."
# Not "press again": many services ignore the Idempotency-Key and would count the answer twice.
MAYBE_NOT_RECORDED = "Your answer may not have been recorded. Open the link to see whether it was."
NOT_AN_ANSWERER = "You are not allowed to answer this here."
# Another program may have the question.
QUESTION_CLOSED = "This question is closed. If its link says otherwise, answer there."

T = TypeVar("T")

log = logging.getLogger("placet.channels")


class InteractionHandler:
    """Handles the interactions of one channel. `process` takes the answer and returns the reply."""

    def __init__(self, channel: Channel, process: Callable[[Interaction], Awaitable[str]]) -> None:
        self._channel = channel
        self._process = process
        self._replies: dict[str, str] = {}
        self._in_progress: dict[str, asyncio.Task[str]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def handle_webhook(self, call: WebhookRequest) -> WebhookResult:
        """Handle a webhook request of the platform within its deadline, even if processing is slower.

        Raises SignatureInvalid unless the platform made the request.
        """
        heard = await self._channel.handle_webhook(call)
        if heard.reply is not None and len(heard.interactions) == 1:
            return await self._reply_in_response(heard, heard.interactions[0], heard.reply)
        await self._handle_interactions(heard.interactions)
        return heard

    async def listen(self) -> None:
        """Receive interactions without a public URL; runs until cancelled."""
        async for interactions in self._channel.listen():
            await self._handle_interactions(interactions)

    async def handle_interaction(self, interaction: Interaction) -> None:
        """Process one interaction, and reply with the result to the user."""
        await self._answer(interaction, await self._find_or_start_reply(interaction))

    async def finish(self) -> None:
        """Wait until everything that was started has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start work that `finish` waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _handle_interactions(self, interactions: Iterable[Interaction]) -> None:
        """Handle interactions concurrently, and finish each even if the caller is cancelled."""
        tasks = {self.start_task(self.handle_interaction(one)) for one in interactions}
        if tasks:
            await asyncio.wait(tasks, timeout=ACKNOWLEDGE_WITHIN_S)

    async def _reply_in_response(
        self, heard: WebhookResult, interaction: Interaction, reply: Callable[[str], bytes]
    ) -> WebhookResult:
        """Reply in the webhook response, or later if processing takes longer than the platform waits."""
        taking = self.start_task(self._find_or_start_reply(interaction))
        await asyncio.wait({taking}, timeout=ACKNOWLEDGE_WITHIN_S)
        if taking.done():
            return replace(heard, body=reply(taking.result()))
        _ = self.start_task(self._answer_later(interaction, taking))
        return heard

    async def _answer_later(self, interaction: Interaction, taking: "asyncio.Task[str]") -> None:
        await self._answer(interaction, await taking)

    async def _answer(self, interaction: Interaction, text: str) -> None:
        try:
            await self._channel.reply(interaction, text)
        except PlacetError as error:
            log.warning("interaction_reply_failed error=%s", error.message)

    async def _find_or_start_reply(self, interaction: Interaction) -> str:
        """Return the reply to an interaction; a repeated one waits for the same reply."""
        reply = self._replies.get(interaction.id)
        if reply is not None:
            return reply
        taking = self._in_progress.get(interaction.id)
        if taking is None:
            taking = self._in_progress[interaction.id] = self.start_task(self._process_safely(interaction))
        return await asyncio.shield(taking)

    async def _process_safely(self, interaction: Interaction) -> str:
        """Process an interaction; an unexpected error is logged and does not affect the others."""
        try:
            reply = await self._process(interaction)
        except Exception:
            log.exception("interaction_failed")
            reply = MAYBE_NOT_RECORDED
        self._in_progress.pop(interaction.id, None)
        self._remember(interaction.id, reply)
        return reply

    def _remember(self, interaction_id: str, reply: str) -> None:
        if reply == MAYBE_NOT_RECORDED:
            return
        if len(self._replies) >= MAX_REMEMBERED:
            self._replies.clear()
        self._replies[interaction_id] = reply
