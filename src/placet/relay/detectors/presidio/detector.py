"""The detector for entities with Presidio, which runs in child processes."""

import asyncio
import hashlib
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import NamedTuple

import msgspec

from placet.errors import DetectorBusy, MissingExtra, PlacetError, Unavailable, ValidationFailed
from placet.extras import is_available
from placet.ports.detector import CLEAN, Match, PreparedRules, Rule, Scan, Scannable
from placet.protocol.conversion import quote
from placet.relay.detectors.built_in import BuiltInDetector
from placet.relay.detectors.presidio.frames import (
    HEAD_BYTES,
    READY_MARK,
    AnalysisRequest,
    AnalysisResult,
    FoundEntity,
    TextPart,
    encode_frame,
    parse_frame_size,
)
from placet.relay.detectors.text_windows import deduplicate_matches, split_windows
from placet.text.characters import replace_surrogates

_MODULE = "placet.relay.detectors.presidio.worker"

DEFAULT_TIMEOUT = timedelta(seconds=5)
MAX_TEXT_LENGTH = 200_000
PATTERN_ENTITIES = frozenset(
    {
        "CREDIT_CARD",
        "CRYPTO",
        "DATE_TIME",
        "EMAIL_ADDRESS",
        "IBAN_CODE",
        "IP_ADDRESS",
        "MAC_ADDRESS",
        "MEDICAL_LICENSE",
        "PHONE_NUMBER",
        "UK_NHS",
        "URL",
        "US_BANK_NUMBER",
        "US_DRIVER_LICENSE",
        "US_ITIN",
        "US_PASSPORT",
        "US_SSN",
        "UUID",
    }
)
"""The entity types that Presidio detects with patterns and context words."""
MODEL_ENTITIES = frozenset({"AGE", "EMAIL", "ID", "LOCATION", "NRP", "ORGANIZATION", "PERSON"})
"""The entity types that Presidio detects only with a language model."""
MAX_WAITING = 128
"""The maximum number of messages that wait for a process. Further ones are refused as busy at once."""
MAX_CACHED_RESULTS = 4_096
DEFAULT_WORKERS = max(1, min(4, (os.cpu_count() or 2) // 2))
START_TIMEOUT_S = 120
_REJECTED = (
    "It is known as a sample, or its check digit is wrong. Presidio does not report it. Try another one."
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NEAR_NAMES = 3


class PresidioProcess:
    """Runs one Presidio process and restarts it after it ends. Only one thread may use it at a time."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._process: subprocess.Popen[bytes] | None = None
        self._worker_pid = 0
        self._startup_output = b""
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process if it does not run. It is ready after a few seconds."""
        with self._lock:
            if self._closed:
                raise Unavailable("The detector is closed.")
            if self._process is None:
                # Presidio would skip a pattern that takes too long. The relay kills the worker before that.
                environment = {**os.environ, "REGEX_TIMEOUT_SECONDS": "86400"}
                self._process = subprocess.Popen(  # noqa: S603 - our own module in our own Python
                    [sys.executable, "-P", "-m", _MODULE, *([self._model] if self._model else [])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                )

    def wait_until_ready(self, deadline: float) -> None:
        """Wait until Presidio is loaded. Raises `DetectorBusy` at the deadline, or `Unavailable`."""
        process = self._get_process()
        try:
            self._wait_until_ready(process, deadline)
        except TimeoutError as timeout:
            raise DetectorBusy("Presidio is starting. Try again later.") from timeout
        except (OSError, ValueError, EOFError, msgspec.MsgspecError) as error:
            self._kill_process()
            raise Unavailable(f"The Presidio process failed: {error}.") from error

    def analyze(self, request: AnalysisRequest, within_s: float) -> AnalysisResult:
        """Return the result of one request. Raises `TimeoutError`, or `Unavailable` with the reason.

        Call `wait_until_ready` before.
        """
        process = self._get_process()
        deadline = time.monotonic() + within_s
        try:
            self._wait_until_ready(process, deadline)
            if process.stdin is not None:
                process.stdin.write(encode_frame(request))
                process.stdin.flush()
            return _read_result(process, deadline)
        except TimeoutError:
            self._kill_worker(process)
            raise
        except (OSError, ValueError, EOFError, msgspec.MsgspecError) as error:
            self._kill_process()
            raise Unavailable(f"The Presidio process failed: {error}.") from error

    def _get_process(self) -> "subprocess.Popen[bytes]":
        self.start()
        process = self._process
        if process is None:
            raise Unavailable("The detector is closed.")
        return process

    def stop(self) -> None:
        """Stop the process. It cannot be started again."""
        self._closed = True
        self._kill_process()

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> None:
        if self._worker_pid:
            return
        while not self._startup_output.endswith(READY_MARK):
            self._startup_output = (self._startup_output + _read(process, 1, deadline))[-len(READY_MARK) :]
        try:
            self._worker_pid = _read_result(process, deadline).pid
        except Unavailable:
            self._kill_process()
            raise
        self._startup_output = b""

    def _kill_worker(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill the worker, but not a process that still loads Presidio: a restart would take longer."""
        worker_pid, self._worker_pid = self._worker_pid, 0
        if worker_pid == process.pid:
            self._kill_process()
        elif worker_pid and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(worker_pid, signal.SIGKILL)

    def _kill_process(self) -> None:
        with self._lock:
            process, self._process = self._process, None
            self._worker_pid, self._startup_output = 0, b""
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):  # closing fails if buffered bytes cannot be written
                    stream.close()


def _read_result(process: "subprocess.Popen[bytes]", deadline: float) -> AnalysisResult:
    body = _read(process, parse_frame_size(_read(process, HEAD_BYTES, deadline)), deadline)
    result = msgspec.msgpack.decode(body, type=AnalysisResult)
    if result.error is not None:
        raise Unavailable(f"The Presidio process failed: {result.error}.")
    return result


def _read(process: "subprocess.Popen[bytes]", size: int, deadline: float) -> bytes:
    if process.stdout is None:
        raise EOFError("it has no output")
    handle = process.stdout.fileno()
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    content = b""
    while len(content) < size:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not poll.poll(remaining * 1000):
            raise TimeoutError("Presidio took too long")
        part = os.read(handle, min(size - len(content), 1 << 20))
        if not part:
            raise EOFError("it ended")
        content += part
    return content


WINDOW, OVERLAP = 4_000, 300
"""Presidio compares every finding with every word around it, so long texts are faster in parts."""
logger = logging.getLogger(__name__)


class PresidioDetector(BuiltInDetector):
    """Detects entities for policies of type `PRESIDIO_DETECTION`. Needs the extra `placet[presidio]`.

    `model` is a spaCy package or folder. Without it, only the types in `PATTERN_ENTITIES` are supported.
    `workers` processes analyze side by side. A text may wait for one of them for `max_wait`, and its analysis
    may then take `within`.
    """

    type = "PRESIDIO_DETECTION"
    title = "Presidio"
    is_slow = True

    def __init__(
        self,
        *,
        model: str | None = None,
        within: timedelta = DEFAULT_TIMEOUT,
        workers: int = DEFAULT_WORKERS,
    ) -> None:
        self.within = within
        self.max_wait = max(within, DEFAULT_TIMEOUT)
        self.model = model
        self._threads = ThreadPoolExecutor(workers, "placet-presidio")
        self._processes = [PresidioProcess(model) for _ in range(workers)]
        self._idle: SimpleQueue[PresidioProcess] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        self._warm_ups: list[Future[None]] = []
        self._waiting = 0
        self._is_closed = False
        self._results: OrderedDict[bytes, _PartResult] = OrderedDict()

    def check(self, rule: Rule) -> None:
        """Raise ValidationFailed for an entity type that is unknown, or needs a model that is not set."""
        if not is_available("presidio"):
            raise ValidationFailed(MissingExtra.of(self.type, "presidio").message, path="entity.type")
        if rule.what in MODEL_ENTITIES and self.model is None:
            raise ValidationFailed(
                f"{rule.what} is found only with a language model. No model is configured.",
                path="entity.type",
            )
        if rule.what not in PATTERN_ENTITIES | MODEL_ENTITIES:
            known = ", ".join(sorted(PATTERN_ENTITIES | (MODEL_ENTITIES if self.model else set())))
            raise ValidationFailed(
                f"{quote(rule.what)} is not an entity type of Presidio. Use one of {known}.",
                path="entity.type",
            )

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Return the rules, ready to scan. Starts the processes before the first message arrives."""
        if rules and not self._warm_ups:
            for process in self._processes:
                process.start()
            self._warm_ups = [self._threads.submit(self._warm_up) for _ in self._processes]
        return _PreparedEntities(self, rules)

    @property
    def is_starting(self) -> bool:
        """Whether a policy needs Presidio and no process has loaded it yet."""
        return bool(self._warm_ups) and not any(warm_up.done() for warm_up in self._warm_ups)

    async def analyze(self, entities: list[str], parts: Sequence[TextPart]) -> list["_PartResult"]:
        """Analyze the parts of one message, each once while its result is cached.

        Raises `DetectorBusy` if no process has time, `TimeoutError` if the analysis takes too long, or
        `Unavailable` if the process fails.
        """
        keys = [_build_key(entities, part) for part in parts]
        new = {key: part for key, part in zip(keys, parts, strict=True) if key not in self._results}
        found = {key: self._results[key] for key in keys if key not in new}
        if new:
            request = AnalysisRequest(entities=entities, parts=list(new.values()))
            found.update(zip(new, _split_result(await self._request(request), len(new)), strict=True))
        for key, result in found.items():
            self._results[key] = result
            self._results.move_to_end(key)
        while len(self._results) > MAX_CACHED_RESULTS:
            self._results.popitem(last=False)
        return [found[key] for key in keys]

    async def aclose(self) -> None:
        """Stop the processes."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.stop()

    async def _request(self, request: AnalysisRequest) -> AnalysisResult:
        if self._waiting >= MAX_WAITING:
            raise DetectorBusy
        begun = threading.Event()
        self._waiting += 1
        try:
            async with asyncio.timeout((self.max_wait + self.within).total_seconds()):
                deadline = time.monotonic() + self.max_wait.total_seconds()
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, self._analyze, request, deadline, begun)
        except TimeoutError as timeout:
            if begun.is_set():
                raise
            raise DetectorBusy from timeout
        finally:
            self._waiting -= 1

    def _analyze(self, request: AnalysisRequest, deadline: float, begun: threading.Event) -> AnalysisResult:
        if time.monotonic() > deadline:
            raise DetectorBusy
        process = self._idle.get()
        try:
            process.wait_until_ready(deadline)
            begun.set()
            return process.analyze(request, self.within.total_seconds())
        finally:
            self._idle.put(process)

    def _warm_up(self) -> None:
        process = self._idle.get()
        try:
            process.wait_until_ready(time.monotonic() + START_TIMEOUT_S)
        except PlacetError as error:
            if self._is_closed:
                return
            logger.error("presidio_start_failed effect=hold error=%s", error.message)
        finally:
            self._idle.put(process)


class _PartResult(NamedTuple):
    """What was found and what was rejected in one part."""

    entities: tuple[FoundEntity, ...]
    rejected: tuple[FoundEntity, ...]


def _build_key(entities: Sequence[str], part: TextPart) -> bytes:
    """Return the key of a part's cached result. It does not contain the text."""
    return hashlib.sha256(msgspec.msgpack.encode((entities, part.text, part.context))).digest()


def _split_result(result: AnalysisResult, parts: int) -> list[_PartResult]:
    return [
        _PartResult(
            tuple(one for one in result.entities if one.part == index),
            tuple(one for one in result.rejected if one.part == index),
        )
        for index in range(parts)
    ]


class _PreparedEntities:
    def __init__(self, detector: PresidioDetector, rules: Sequence[Rule]) -> None:
        self._detector = detector
        self._rules = rules

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        """Return the matches of the wanted rules. Other entity types are skipped, because they take time."""
        rules = [rule for rule in range(len(self._rules)) if wanted is None or rule in wanted]
        if sum(len(piece.text) for piece in pieces) > MAX_TEXT_LENGTH:
            reason = f"the message is longer than Presidio's limit of {MAX_TEXT_LENGTH} characters"
            return Scan(unchecked=dict.fromkeys(rules, reason))
        entities = sorted({self._rules[rule].what for rule in rules})
        parts = [part for index, piece in enumerate(pieces) for part in _split_piece(index, piece)]
        if not parts or not entities:
            return CLEAN
        matches: list[Match] = []
        near_misses: list[Match] = []
        results = await self._detector.analyze(entities, parts)
        for part, result in zip(parts, results, strict=True):
            for found in result.entities:
                for rule in rules:
                    if self._rules[rule].what == found.entity:
                        is_match = found.score >= self._rules[rule].threshold
                        hint = "" if is_match else _describe_context(found)
                        (matches if is_match else near_misses).append(_build_match(rule, part, found, hint))
            for found in result.rejected:
                near_misses += (
                    _build_match(rule, part, found, _REJECTED)
                    for rule in rules
                    if self._rules[rule].what == found.entity
                )
        if not matches and not near_misses:
            return CLEAN
        return Scan(matches=deduplicate_matches(matches), near_misses=deduplicate_matches(near_misses))


def _build_match(rule: int, part: TextPart, found: FoundEntity, hint: str) -> Match:
    return Match(
        rule=rule,
        piece=part.piece,
        start=part.offset + found.start,
        end=part.offset + found.end,
        entity=found.entity,
        score=found.score,
        hint=hint,
    )


def _describe_context(found: FoundEntity) -> str:
    """Return which words near a text would raise its score."""
    if not found.context:
        return ""
    return f"One of these words next to it raises the score: {', '.join(found.context)}."


def _split_piece(index: int, piece: Scannable) -> list[TextPart]:
    if not piece.text:
        return []
    context = _get_context_words(piece.path)
    windows = split_windows(replace_surrogates(piece.text), size=WINDOW, overlap=OVERLAP)
    return [TextPart(piece=index, offset=offset, text=text, context=context) for offset, text in windows]


def _get_context_words(path: str) -> list[str]:
    """Return the words of the nearest field names of a value in `data`, which Presidio uses as context."""
    _, in_data, names = path.partition(".data")
    if not in_data:
        return []
    near = re.split(r"[.\[\]]+", names)[-_NEAR_NAMES - 1 :]
    return [word.lower() for name in near for word in _WORD.findall(name)]
