"""Signs the answers that come in together one right after another.

A signature needs tables that do not stay in the processor's cache while other work goes on: signed each for
itself, every answer pays for fetching them anew, which doubles its cost.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from assent.cases.case import Case
from assent.desk.answer import sign_result
from assent.ports.signer import Signer
from assent.protocol.poll import Result


class Signatures:
    """A signer for a desk; waits until the loop has taken in all answers of its turn."""

    def __init__(self, signer: Signer, *, jwks_url: str) -> None:
        self._signer = signer
        self._jwks_url = jwks_url
        self._waiting: list[tuple[asyncio.Future[Result], Callable[[], Result]]] = []

    async def sign(self, result: Result, *, case: Case, now: datetime) -> Result:
        """The result with its signature; raises ValidationFailed if it has no canonical form."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((future, lambda: self._signed(result, case, now)))
        if len(self._waiting) == 1:
            loop.call_soon(self._sign_all)
        return await future

    def _signed(self, result: Result, case: Case, now: datetime) -> Result:
        return sign_result(result, case=case, now=now, signer=self._signer, jwks_url=self._jwks_url)

    def _sign_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future, signed in waiting:
            if future.done():
                continue
            try:
                future.set_result(signed())
            except Exception as error:  # it belongs to the answer that caused it
                future.set_exception(error)
