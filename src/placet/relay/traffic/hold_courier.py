"""Resume held messages when the outbox delivers their closed cases."""

import asyncio
import logging
from datetime import timedelta

import msgspec

from placet.desk.new_deliveries import HoldRelease
from placet.ports.courier import DeliveryReply, OutgoingRequest
from placet.relay.traffic.resumption import HoldResumer, RetryLater

WAIT_FOR = timedelta(seconds=2)
RETRY_AFTER = timedelta(seconds=10)
RESUME_FAILED = "The relay could not resume the message because of an internal error."

log = logging.getLogger("placet.relay")


class RelayCourier:
    """A `Courier` that resumes a held message for each delivery. The outbox retries failed deliveries.

    An agent may take as long as the call timeout allows. The delivery then stays in the outbox, so that it
    does not block others.
    """

    def __init__(self, resumer: HoldResumer) -> None:
        self._resumer = resumer
        self._jobs: dict[str, asyncio.Task[None]] = {}

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Start to resume the hold, or check the attempt in progress."""
        release = msgspec.json.decode(request.body, type=HoldRelease)
        job = self._jobs.get(release.hold_id)
        if job is None:
            work = self._resumer.resume(release.hold_id, release.case_id)
            job = self._jobs[release.hold_id] = asyncio.create_task(work)
        await asyncio.wait({job}, timeout=WAIT_FOR.total_seconds())
        if not job.done():
            return DeliveryReply(
                status=None, error=None, took_for=timedelta(0), retry_after=RETRY_AFTER, under_way=True
            )
        del self._jobs[release.hold_id]
        return await self._build_reply(release, job, request.last)

    async def aclose(self) -> None:
        """Cancel the attempts in progress. Their deliveries stay in the outbox."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _build_reply(
        self, release: HoldRelease, job: "asyncio.Task[None]", last: bool
    ) -> DeliveryReply:
        failure = job.exception()
        if failure is None:
            return DeliveryReply(status=200, error=None, took_for=timedelta(0))
        message = failure.message if isinstance(failure, RetryLater) else RESUME_FAILED
        if not isinstance(failure, RetryLater):
            log.error("hold_resume_failed hold_id=%s", release.hold_id, exc_info=failure)
        if last:
            await self._resumer.fail(release.hold_id, message)
        return DeliveryReply(status=None, error=message, took_for=timedelta(0))
