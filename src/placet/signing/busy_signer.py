"""Signs the answers of a quiet server where they come in, and those of a busy one in a process apart."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from placet.ports.signer import Claim
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import KeyRing, SigningKey
from placet.signing.worker_process import SigningProcess

MANY = 4  # fewer are signed before another process has even heard of them
REST_S = 10.0  # a process that died may have to die again: not at every answer


class BusySigner:
    """A Signer over a key ring; its process starts with the first large group, and is not relied on."""

    def __init__(
        self, ring: KeyRing, *, start: Callable[[SigningKey], SigningProcess] = SigningProcess
    ) -> None:
        self._here = JwsSigner(ring)
        self._key = ring.current
        self._start = start
        self._process: SigningProcess | None = None
        self._rests_until = 0.0

    @property
    def algorithm(self) -> str:
        """The JWS algorithm of the next signature."""
        return self._here.algorithm

    async def sign_all(self, claims: Sequence[Claim]) -> list[str]:
        """The detached JWS over each payload, in their order."""
        if len(claims) >= MANY:
            with suppress(ConnectionError):
                return await self._apart().sign_all(claims)
        return await self._here.sign_all(claims)

    def jwks(self) -> dict[str, Any]:
        """The JSON Web Key Set to publish."""
        return self._here.jwks()

    async def aclose(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            await self._process.aclose()

    def _apart(self) -> SigningProcess:
        now = time.monotonic()
        if self._process is None or (self._process.gone and now >= self._rests_until):
            self._process, self._rests_until = self._start(self._key), now + REST_S
        return self._process
