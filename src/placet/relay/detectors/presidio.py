"""Detect entities with Presidio in a child process that is killed when it takes too long."""

import asyncio
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from queue import SimpleQueue

from placet.errors import MissingExtra, ValidationFailed
from placet.extras import is_available
from placet.ports.detector import CLEAN, Match, PreparedRules, Rule, Scan, Scannable
from placet.protocol.conversion import quote
from placet.relay.detectors.presidio_frames import AnalysisRequest, AnalysisResult, TextPart
from placet.relay.detectors.presidio_process import PresidioProcess
from placet.relay.detectors.text_windows import deduplicate_matches, replace_surrogates, split_windows

DEFAULT_TIMEOUT = timedelta(seconds=5)
MAX_CHARACTERS = 200_000
WINDOW, OVERLAP = 4_000, 300
"""Presidio compares every finding with every word around it, so long texts are cheaper in parts."""
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
"""What Presidio finds by patterns and words around them."""
MODEL_ENTITIES = frozenset({"AGE", "EMAIL", "ID", "LOCATION", "NRP", "ORGANIZATION", "PERSON"})
"""What it finds only with a language model."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NEAR_NAMES = 3


class PresidioDetector:
    """Policies of type `PRESIDIO_DETECTION`; needs the extra `placet[presidio]`.

    Without a `model`, a spaCy package or folder, it knows the entity types that patterns can tell.
    """

    type = "PRESIDIO_DETECTION"

    def __init__(
        self, *, model: str | None = None, within: timedelta = DEFAULT_TIMEOUT, processes: int = 1
    ) -> None:
        self.within = within
        self.model = model
        self._threads = ThreadPoolExecutor(processes, "placet-presidio")
        self._idle: SimpleQueue[PresidioProcess] = SimpleQueue()
        self._processes = [PresidioProcess(model) for _ in range(processes)]
        for process in self._processes:
            self._idle.put(process)

    def check(self, rule: Rule) -> None:
        """Refuse an entity type that Presidio does not know, or knows only with a model."""
        if not is_available("presidio"):
            raise ValidationFailed(MissingExtra.of(self.type, "presidio").message, path="entity.type")
        if rule.what in MODEL_ENTITIES and self.model is None:
            raise ValidationFailed(
                f"{rule.what} is found only with a language model, and none is set up here.",
                path="entity.type",
            )
        if rule.what not in PATTERN_ENTITIES | MODEL_ENTITIES:
            known = ", ".join(sorted(PATTERN_ENTITIES | (MODEL_ENTITIES if self.model else set())))
            raise ValidationFailed(
                f"{quote(rule.what)} is not an entity type of Presidio; it knows {known}.",
                path="entity.type",
            )

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Start the process, so that it is there when the first message comes."""
        if rules:
            for process in self._processes:
                process.start()
        return _PreparedEntities(self, rules)

    async def ask(self, asked: AnalysisRequest) -> AnalysisResult:
        """Have one message analyzed; raises `TimeoutError` or whatever went wrong."""
        deadline = time.monotonic() + self.within.total_seconds()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, asked, deadline)

    async def aclose(self) -> None:
        """End the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.stop()

    def _ask(self, asked: AnalysisRequest, deadline: float) -> AnalysisResult:
        process = self._idle.get()
        try:
            return process.ask(asked, deadline)
        finally:
            self._idle.put(process)


class _PreparedEntities:
    def __init__(self, detector: PresidioDetector, rules: Sequence[Rule]) -> None:
        self._detector = detector
        self._rules = rules

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        """Look for the wanted entity types only: the others cost most of the time."""
        rules = [number for number in range(len(self._rules)) if wanted is None or number in wanted]
        if sum(len(piece.text) for piece in pieces) > MAX_CHARACTERS:
            reason = f"the message is longer than the {MAX_CHARACTERS} characters that Presidio is given"
            return Scan(unchecked=dict.fromkeys(rules, reason))
        entities = sorted({self._rules[rule].what for rule in rules})
        parts = [part for number, piece in enumerate(pieces) for part in _split_piece(number, piece)]
        if not parts or not entities:
            return CLEAN
        found = await self._detector.ask(AnalysisRequest(entities=entities, parts=parts))
        matches = [
            Match(
                rule=rule,
                piece=parts[one.part].piece,
                start=parts[one.part].offset + one.start,
                end=parts[one.part].offset + one.end,
                entity=one.entity,
                score=one.score,
            )
            for one in found.places
            for rule in rules
            if self._rules[rule].what == one.entity and one.score >= self._rules[rule].threshold
        ]
        return Scan(matches=deduplicate_matches(matches)) if matches else CLEAN


def _split_piece(number: int, piece: Scannable) -> list[TextPart]:
    if not piece.text:
        return []
    context = _get_context_words(piece.path)
    cut = split_windows(replace_surrogates(piece.text), size=WINDOW, overlap=OVERLAP)
    return [TextPart(piece=number, offset=offset, text=text, context=context) for offset, text in cut]


def _get_context_words(path: str) -> list[str]:
    """In data the name of a member says what its value is, as the words around it do in a sentence."""
    _, in_data, names = path.partition(".data")
    if not in_data:
        return []
    near = re.split(r"[.\[\]]+", names)[-_NEAR_NAMES - 1 :]
    return [word.lower() for name in near for word in _WORD.findall(name)]
