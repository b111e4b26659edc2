"""Has the answers that come in together signed together.

A signature needs tables that do not stay in the processor's cache while other work goes on: signed each for
itself, every answer pays for fetching them anew, which doubles its cost. And many at once can be handed to
whoever signs beside the loop. What a group costs beyond its signatures is paid once, and all of it is then
written together too: so a group is begun when a turn of the loop brings no more answers, or when it is full.
"""

import asyncio
from datetime import datetime

from placet.cases.case import Case
from placet.ports.signer import Claim, Signer
from placet.protocol.poll import Result, Signature
from placet.protocol.signed_result import build_signing_payload, format_wire_time

FULL = 24  # answers: others can be taken in while they are signed and written

Signed = tuple[str, str]  # the algorithm and the detached JWS


class Signatures:
    """A signer for a desk; waits until the loop has taken in all answers that are there."""

    def __init__(self, signer: Signer, *, jwks_url: str) -> None:
        self._signer = signer
        self._jwks_url = jwks_url
        self._waiting: list[tuple[Claim, asyncio.Future[Signed]]] = []
        self._signing: set[asyncio.Task[None]] = set()
        self._looking = False

    async def sign(self, result: Result, *, case: Case, now: datetime) -> Result:
        """The result with its signature; raises ValidationFailed if it has no canonical form."""
        payload = build_signing_payload(
            case_id=case.id,
            shown=case.offer_digest,
            action=result.action,
            data=result.data,
            completed_at=format_wire_time(now),
        )
        algorithm, value = await self._sign_one(Claim(payload, case.offer_digest))
        signature = Signature(algorithm=algorithm, value=value, signed_at=now, signer=self._jwks_url)
        return Result(action=result.action, data=result.data, signature=signature)

    def _sign_one(self, claim: Claim) -> asyncio.Future[Signed]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Signed] = loop.create_future()
        self._waiting.append((claim, future))
        if len(self._waiting) == FULL:
            self._start()
        elif not self._looking:
            self._looking = True
            loop.call_soon(self._look, loop, 1)
        return future

    def _look(self, loop: asyncio.AbstractEventLoop, seen: int) -> None:
        """Begin if there are no more than were seen a turn ago."""
        count = len(self._waiting)
        if count > seen:
            loop.call_soon(self._look, loop, count)
            return
        self._looking = False
        if count:
            self._start()

    def _start(self) -> None:
        waiting, self._waiting = self._waiting, []
        task = asyncio.create_task(self._sign(waiting))
        self._signing.add(task)
        task.add_done_callback(self._signing.discard)

    async def _sign(self, waiting: list[tuple[Claim, asyncio.Future[Signed]]]) -> None:
        try:
            algorithm = self._signer.algorithm  # before the wait: a rotation meanwhile may change it
            values = await self._signer.sign_all([claim for claim, _ in waiting])
            for (_, future), value in zip(waiting, values, strict=True):
                if not future.done():
                    future.set_result((algorithm, value))
        except Exception as error:  # whoever has no signature by now gets none
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
