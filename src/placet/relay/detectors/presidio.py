"""Detect entities with Presidio in a child process that is killed when it takes too long."""

import asyncio
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from placet.errors import MissingExtra, ValidationFailed
from placet.extras import is_available
from placet.ports.detector import CLEAN, Match, PreparedRules, Rule, Scan, Scannable
from placet.protocol.conversion import quote
from placet.relay.detectors.presidio_frames import AnalysisRequest, AnalysisResult, TextPart
from placet.relay.detectors.presidio_process import PresidioProcess
from placet.relay.detectors.text_windows import deduplicate_matches, split_windows
from placet.text.characters import replace_surrogates

DEFAULT_TIMEOUT = timedelta(seconds=5)
MAX_TEXT_LENGTH = 200_000
WINDOW, OVERLAP = 4_000, 300
"""Presidio compares every finding with every word around it, so long texts are faster in parts."""
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
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NEAR_NAMES = 3


class PresidioDetector:
    """Detects entities for policies of type `PRESIDIO_DETECTION`. Needs the extra `placet[presidio]`.

    `model` is a spaCy package or folder. Without it, only the types in `PATTERN_ENTITIES` are supported.
    """

    type = "PRESIDIO_DETECTION"

    def __init__(self, *, model: str | None = None, within: timedelta = DEFAULT_TIMEOUT) -> None:
        self.within = within
        self.model = model
        self._thread = ThreadPoolExecutor(1, "placet-presidio")
        self._process = PresidioProcess(model)

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
        """Return the rules, ready to scan. Starts the process before the first message arrives."""
        if rules:
            self._process.start()
        return _PreparedEntities(self, rules)

    async def analyze(self, request: AnalysisRequest) -> AnalysisResult:
        """Analyze one message. Raises `TimeoutError`, or `Unavailable` if the process fails."""
        deadline = time.monotonic() + self.within.total_seconds()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._process.analyze, request, deadline)

    async def aclose(self) -> None:
        """Stop the process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.stop()


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
        result = await self._detector.analyze(AnalysisRequest(entities=entities, parts=parts))
        matches = [
            Match(
                rule=rule,
                piece=parts[found.part].piece,
                start=parts[found.part].offset + found.start,
                end=parts[found.part].offset + found.end,
                entity=found.entity,
                score=found.score,
            )
            for found in result.entities
            for rule in rules
            if self._rules[rule].what == found.entity and found.score >= self._rules[rule].threshold
        ]
        return Scan(matches=deduplicate_matches(matches)) if matches else CLEAN


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
