"""Run rules that evaluate a schema of somebody else in a worker process, with a deadline.

A schema of an agent is a small program. Its size is limited when the case is opened; this process limits the
time and memory of its evaluation. It starts with the first such answer, and is stopped at a limit.
"""

import asyncio
import logging
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from placet.errors import InvalidSubmission, Unavailable
from placet.reviews.evaluation_worker import FAILED, LENGTH, RAISED, EvaluationOutcome, encode_frame
from placet.reviews.registry import load_named_type
from placet.reviews.review_type import ReviewType
from placet.text.wording import message

log = logging.getLogger("placet")

DEADLINE_S = 2.0
START_DEADLINE_S = 30.0
MAX_WAITING = 32
# Modules are imported from where they are installed, never from the current folder of the server.
COMMAND = (sys.executable, "-P", "-m", "placet.reviews.evaluation_worker")

ResultT = TypeVar("ResultT")


class EvaluationProcess:
    """Runs methods of the registered review types in one worker process, one at a time.

    Methods of other types run in this process: their author runs them in it anyway.
    """

    def __init__(self, *, command: Sequence[str] = COMMAND, deadline_s: float = DEADLINE_S) -> None:
        self._command = command
        self._deadline_s = deadline_s
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Return the id of the worker process, or None if none is running."""
        return self._process.pid if self._process is not None else None

    async def run(self, method: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Return or raise what the method does, as `RulesEvaluator.run`."""
        rules = getattr(method, "__self__", None)
        if not isinstance(rules, ReviewType) or load_named_type(rules.declaration.name) is not rules:
            return method(*arguments)
        if self._waiting >= MAX_WAITING:
            raise Unavailable()
        request = encode_frame((rules.declaration.name, method.__name__, arguments))
        self._waiting += 1
        try:
            async with self._turn:
                kind, value = await self._evaluate(request)
        finally:
            self._waiting -= 1
        if kind == RAISED:
            raise value
        if kind == FAILED:
            log.error("evaluation_failed error=%s", value)
            raise Unavailable()
        result: ResultT = value
        return result

    async def aclose(self) -> None:
        """Stop the process. A request in progress fails, and none is taken after it."""
        self._closed = True
        await self._stop()

    async def _evaluate(self, request: bytes) -> EvaluationOutcome:
        process = await self._require_process()
        try:
            async with asyncio.timeout(self._deadline_s):
                return await _send_and_read(process, request)
        except (TimeoutError, OSError, EOFError) as error:
            await self._stop()
            if self._closed:
                raise Unavailable() from None
            log.warning("evaluation_stopped error=%s", type(error).__name__)
            raise InvalidSubmission(
                message("The changes take too long to check. Nothing was decided.")
            ) from None
        except BaseException:  # its outcome must not be read as that of the next request
            await self._stop()
            raise

    async def _require_process(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self._stop()
        if self._closed:
            raise Unavailable()
        try:
            # In a new session it survives Ctrl-C, so that the server can finish its last answers.
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
            self._process = process
            async with asyncio.timeout(START_DEADLINE_S):
                await _read_outcome(process)
        except (TimeoutError, OSError, EOFError) as error:
            await self._stop()
            log.error("evaluation_process_not_started error=%s", type(error).__name__)
            raise Unavailable() from None
        except BaseException:
            await self._stop()
            raise
        return process

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await asyncio.shield(process.wait())


async def _send_and_read(process: Process, request: bytes) -> EvaluationOutcome:
    if process.stdin is None:
        raise EOFError
    process.stdin.write(request)
    await process.stdin.drain()
    return await _read_outcome(process)


async def _read_outcome(process: Process) -> EvaluationOutcome:
    if process.stdout is None:
        raise EOFError
    (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
    outcome: EvaluationOutcome = pickle.loads(await process.stdout.readexactly(length))  # noqa: S301 - our own program
    return outcome
