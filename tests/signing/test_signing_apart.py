"""A process apart signs what a server would have signed itself, and the server goes on without it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from placet.ports.signer import Claim
from placet.protocol.signed_result import build_signing_payload
from placet.signing import worker_process
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import SigningKey
from placet.signing.offloading_signer import MIN_OFFLOADED_BATCH, OffloadingSigner
from placet.signing.verify import verify_result
from placet.signing.worker_process import SigningProcess
from tests.signing.polls import ring, signed_poll
from tests.signing.samples import DATA, MOMENT, SHOWN

pytestmark = pytest.mark.anyio

WITHIN_S = 60
IDS = [f"case_{number}" for number in range(MIN_OFFLOADED_BATCH)]
SAYS_READY = r"import sys; sys.stdin.buffer.read(4); print('\0\0\0\1\x90', end='', flush=True)"
DIES = (sys.executable, "-c", f"{SAYS_READY}; sys.stdin.buffer.read(1000)")
HANGS = (sys.executable, "-c", f"{SAYS_READY}; sys.stdin.buffer.read()")
CANNOT_START = ("/nowhere/python",)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long: a real process may be slow beside busy neighbours."""
    monkeypatch.setattr(worker_process, "RESPONSE_TIMEOUT_S", WITHIN_S)


def claims(ids: Sequence[str]) -> list[Claim]:
    case: dict[str, Any] = {"completed_at": MOMENT, "action": "approve", "shown": SHOWN}
    return [Claim(build_signing_payload(case_id=case_id, data=DATA, **case), SHOWN) for case_id in ids]


def proved(values: Sequence[str], algorithm: str = "ES256") -> list[str]:
    """The cases that these signatures prove, each for its own."""
    signer = JwsSigner(ring(algorithm))
    polls = [signed_poll(signer, case_id=case_id) for case_id in IDS]
    for poll, value in zip(polls, values, strict=True):
        poll["result"]["signature"]["value"] = value
    return [verify_result(poll, signer.jwks()).case_id for poll in polls]


@asynccontextmanager
async def apart(algorithm: str = "ES256", **options: Any) -> AsyncIterator[SigningProcess]:
    process = SigningProcess(ring(algorithm).current, **options)
    try:
        async with asyncio.timeout(WITHIN_S):
            yield process
    finally:
        await process.aclose()
    assert process.gone


async def until_ready(process: SigningProcess) -> None:
    while True:
        try:
            await process.sign_all([])
        except ConnectionError:
            assert not process.gone
            await asyncio.sleep(0.01)
        else:
            return


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
async def test_what_is_signed_apart_verifies(algorithm: str) -> None:
    async with apart(algorithm) as process:
        await until_ready(process)
        assert proved(await process.sign_all(claims(IDS)), algorithm) == IDS


async def test_everyone_gets_their_own_signatures() -> None:
    async with apart() as process:
        await until_ready(process)
        groups = await asyncio.gather(*(process.sign_all(claims([case_id])) for case_id in IDS))
        assert proved([value for (value,) in groups]) == IDS


async def test_a_process_that_starts_up_keeps_nobody_waiting() -> None:
    async with apart() as process:
        with pytest.raises(ConnectionError):
            await process.sign_all(claims(IDS))


@pytest.mark.parametrize("command", [DIES, HANGS])
async def test_a_process_that_dies_or_hangs_is_given_up(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "RESPONSE_TIMEOUT_S", 0.2)
    async with apart(command=command) as process:
        while not process.gone:
            with pytest.raises(ConnectionError):
                await process.sign_all(claims(IDS * 10))
            await asyncio.sleep(0.01)


class Starts:
    """How often a process was started, each of the same kind."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self.processes: list[SigningProcess] = []

    def __call__(self, key: SigningKey) -> SigningProcess:
        options: dict[str, Any] = {"command": self._command} if self._command else {}
        self.processes.append(SigningProcess(key, **options))
        return self.processes[-1]


@pytest.mark.parametrize("command", [DIES, HANGS, CANNOT_START])
async def test_a_server_signs_for_itself_when_nobody_else_does(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "RESPONSE_TIMEOUT_S", 0.2)
    starts = Starts(*command)
    signer = OffloadingSigner(ring("ES256"), start=starts)
    async with asyncio.timeout(WITHIN_S):
        assert proved(await signer.sign_all(claims(IDS))) == IDS
        while not starts.processes[0].gone:
            assert proved(await signer.sign_all(claims(IDS))) == IDS
            await asyncio.sleep(0.01)
        assert proved(await signer.sign_all(claims(IDS))) == IDS
    assert len(starts.processes) == 1, "a process that dies is not started again at every answer"
    await signer.aclose()


async def test_a_busy_server_has_its_answers_signed_apart() -> None:
    starts = Starts()
    signer = OffloadingSigner(ring("ES256"), start=starts)
    async with asyncio.timeout(WITHIN_S):
        assert proved(await signer.sign_all(claims(IDS))) == IDS
        await until_ready(starts.processes[0])
        assert proved(await signer.sign_all(claims(IDS))) == IDS
    await signer.aclose()
    assert starts.processes[0].gone


async def test_a_quiet_server_starts_no_process() -> None:
    starts = Starts()
    signer = OffloadingSigner(ring("ES256"), start=starts)
    await signer.sign_all(claims(IDS[1:]))
    assert starts.processes == []
    await signer.aclose()
