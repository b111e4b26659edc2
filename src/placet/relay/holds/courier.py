"""Deliver closed cases about held messages from the outbox to the relay."""

import asyncio
import logging
from datetime import timedelta

import msgspec

from placet.desk.new_deliveries import Release
from placet.ports.courier import DeliveryReply, OutgoingRequest
from placet.relay.holds.resumption import HoldResumer, RetryLater

WAIT_FOR = timedelta(seconds=2)
LOOK_AGAIN_IN = timedelta(seconds=10)
RESUME_FAILED = "The relay could not go on with the message."

log = logging.getLogger("placet.relay")


class RelayCourier:
    """A `Courier` for which going on with a held message is a delivery: owed, retried, and never lost.

    An agent may take as long as a call may: meanwhile the delivery waits, and holds up no other.
    """

    def __init__(self, resuming: HoldResumer) -> None:
        self._resuming = resuming
        self._jobs: dict[str, asyncio.Task[None]] = {}

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Make one attempt, or look how it is getting on."""
        release = msgspec.json.decode(request.body, type=Release)
        job = self._jobs.get(release.hold_id)
        if job is None:
            work = self._resuming.resume(release.hold_id, release.case_id)
            job = self._jobs[release.hold_id] = asyncio.create_task(work)
        await asyncio.wait({job}, timeout=WAIT_FOR.total_seconds())
        if not job.done():
            return DeliveryReply(
                status=None, error=None, took_for=timedelta(0), retry_after=LOOK_AGAIN_IN, under_way=True
            )
        del self._jobs[release.hold_id]
        return await self._build_reply(release, job, request.last)

    async def aclose(self) -> None:
        """Give up what is under way; it is owed still."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _build_reply(self, release: Release, job: "asyncio.Task[None]", last: bool) -> DeliveryReply:
        failure = job.exception()
        if failure is None:
            return DeliveryReply(status=200, error=None, took_for=timedelta(0))
        words = failure.words if isinstance(failure, RetryLater) else RESUME_FAILED
        if not isinstance(failure, RetryLater):
            log.error("hold_resume_failed", exc_info=failure)
        if last:
            await self._resuming.fail(release.hold_id, words)
        return DeliveryReply(status=None, error=words, took_for=timedelta(0))
