"""Signs small batches in this process and large ones in a worker process."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from placet.ports.signer import Claim
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import KeyRing, SigningKey
from placet.signing.worker_process import SigningProcess

MIN_OFFLOADED_BATCH = 4  # smaller batches are signed faster in this process
RESTART_DELAY_S = 10.0  # how long to wait before a worker process that died is started again


class OffloadingSigner:
    """A Signer with a key ring. The worker process starts with the first large batch, and may fail."""

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
        """Return the JWS algorithm of the next signature."""
        return self._here.algorithm

    async def sign_all(self, claims: Sequence[Claim]) -> list[str]:
        """Return the detached JWS of each payload, in order."""
        if len(claims) >= MIN_OFFLOADED_BATCH:
            with suppress(ConnectionError):
                return await self._get_ready_worker().sign_all(claims)
        return await self._here.sign_all(claims)

    def jwks(self) -> dict[str, Any]:
        """Return the JSON Web Key Set to publish."""
        return self._here.jwks()

    async def aclose(self) -> None:
        """Stop the worker process, if there is one."""
        if self._process is not None:
            await self._process.aclose()

    def _get_ready_worker(self) -> SigningProcess:
        now = time.monotonic()
        if self._process is None or (self._process.gone and now >= self._rests_until):
            self._process, self._rests_until = self._start(self._key), now + RESTART_DELAY_S
        return self._process
