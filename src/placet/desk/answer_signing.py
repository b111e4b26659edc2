"""Signs answers that arrive together as one batch.

A signature uses tables that other work evicts from the processor's cache: signing answers one by one costs
twice as much. A batch can also be signed by a worker process, and its answers are then written in one
transaction. A batch starts when an iteration of the event loop brings no more answers, or when it is full.
"""

import asyncio
from datetime import datetime

import msgspec

from placet.cases.case import Case
from placet.ports.signer import Claim, Signer
from placet.protocol.poll import Result, Signature
from placet.protocol.signed_result import build_signing_payload, format_wire_time
from placet.protocol.verification import VerificationResult

MAX_BATCH = 24  # more answers arrive while these are signed and written

Signed = tuple[str, str]  # the algorithm and the detached JWS


class AnswerSigner:
    """Signs results in batches. Each batch has the answers that arrived in the same loop iterations."""

    def __init__(self, signer: Signer, *, jwks_url: str) -> None:
        self._signer = signer
        self._jwks_url = jwks_url
        self._waiting: list[tuple[Claim, asyncio.Future[Signed]]] = []
        self._signing: set[asyncio.Task[None]] = set()
        self._is_collecting = False

    async def sign(
        self, result: Result, *, case: Case, now: datetime, verification: VerificationResult | None = None
    ) -> Result:
        """Return the result with its signature. Raises ValidationFailed if it has no canonical form."""
        payload = build_signing_payload(
            case_id=case.id,
            shown=case.offer_digest,
            action=result.action,
            data=result.data,
            completed_at=format_wire_time(now),
            verification=None if verification is None else msgspec.to_builtins(verification),
        )
        algorithm, value = await self._sign_one(Claim(payload, case.offer_digest))
        signature = Signature(algorithm=algorithm, value=value, signed_at=now, signer=self._jwks_url)
        return Result(action=result.action, data=result.data, signature=signature)

    def _sign_one(self, claim: Claim) -> asyncio.Future[Signed]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Signed] = loop.create_future()
        self._waiting.append((claim, future))
        if len(self._waiting) == MAX_BATCH:
            self._start()
        elif not self._is_collecting:
            self._is_collecting = True
            loop.call_soon(self._collect, loop, 1)
        return future

    def _collect(self, loop: asyncio.AbstractEventLoop, previous: int) -> None:
        """Start the batch unless more answers have arrived since the previous iteration."""
        count = len(self._waiting)
        if count > previous:
            loop.call_soon(self._collect, loop, count)
            return
        self._is_collecting = False
        if count:
            self._start()

    def _start(self) -> None:
        waiting, self._waiting = self._waiting, []
        task = asyncio.create_task(self._sign(waiting))
        self._signing.add(task)
        task.add_done_callback(self._signing.discard)

    async def _sign(self, waiting: list[tuple[Claim, asyncio.Future[Signed]]]) -> None:
        try:
            algorithm = self._signer.algorithm  # read before signing: a rotation may change it
            values = await self._signer.sign_all([claim for claim, _ in waiting])
            for (_, future), value in zip(waiting, values, strict=True):
                if not future.done():
                    future.set_result((algorithm, value))
        except Exception as error:  # every answer without a signature fails
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
