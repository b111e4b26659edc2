"""Detect entities with Amazon Comprehend; texts are packed into few requests."""

import asyncio
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, NamedTuple

from placet.errors import MissingExtra, Unavailable, ValidationFailed
from placet.extras import is_available
from placet.ports.detector import CLEAN, Match, PreparedRules, Rule, Scan, Scannable
from placet.protocol.conversion import quote
from placet.relay.detectors.comprehend_entities import ENTITIES
from placet.relay.detectors.text_windows import deduplicate_matches, split_windows

DEFAULT_TIMEOUT = timedelta(seconds=10)
MAX_BYTES = 96_000
"""The service takes 100 KB of UTF-8."""
WINDOW, OVERLAP = MAX_BYTES // 3, 500
"""No character that is sent takes more than three bytes."""
MAX_DOCUMENTS = 32
ANY_ENTITY = "ALL"
_GAP = "\n\n"
# Whether the service counts these as one character or as two is not documented, so it sees none of them.
_ASTRAL = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")


class ComprehendDetector:
    """Policies of type `COMPREHEND_DETECTION`; needs the extra `placet[comprehend]`.

    Credentials and region come from where boto3 looks for them, unless `client_options` say otherwise. Every
    text that such a policy applies to is sent to the service.
    """

    type = "COMPREHEND_DETECTION"

    def __init__(
        self,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        language: str = "en",
        within: timedelta = DEFAULT_TIMEOUT,
        client_options: Mapping[str, Any] | None = None,
        threads: int = 8,
    ) -> None:
        self.within = within
        self.language = language
        self._options = {"region_name": region, "endpoint_url": endpoint_url, **(client_options or {})}
        self._threads = ThreadPoolExecutor(threads, "placet-comprehend")
        self._client: Any = None
        self._lock = threading.Lock()

    def check(self, rule: Rule) -> None:
        """Refuse an entity type that Comprehend does not have."""
        if not is_available("comprehend"):
            raise ValidationFailed(MissingExtra.of(self.type, "comprehend").message, path="entity.type")
        if rule.what not in ENTITIES:
            known = ", ".join(sorted(ENTITIES))
            raise ValidationFailed(
                f"{quote(rule.what)} is not an entity type of Comprehend; it knows {known}.",
                path="entity.type",
            )

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Nothing is compiled; the service is asked about each message."""
        return _PreparedEntities(self, rules)

    async def detect(self, documents: Sequence[str]) -> list[list["ComprehendEntity"]]:
        """Ask the service about these documents side by side; raises whatever goes wrong with any of them."""
        loop = asyncio.get_running_loop()
        asked = (loop.run_in_executor(self._threads, self._detect, document) for document in documents)
        return list(await asyncio.gather(*asked))

    async def aclose(self) -> None:
        """Let go of connections; requests that still wait end by their own limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            self._client.close()

    def _detect(self, document: str) -> list["ComprehendEntity"]:
        answer = self._ready_client().detect_pii_entities(Text=document, LanguageCode=self.language)
        return [_parse_entity(raw, len(document)) for raw in answer["Entities"]]

    def _ready_client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> Any:
        import boto3
        from botocore.config import Config

        limit_s = self.within.total_seconds()
        config = Config(
            connect_timeout=limit_s,
            read_timeout=limit_s,
            retries={"mode": "standard", "total_max_attempts": 2},
            max_pool_connections=16,
        )
        return boto3.session.Session().client("comprehend", config=config, **self._options)


class ComprehendEntity(NamedTuple):
    """What the service found in a document."""

    kind: str
    start: int
    end: int
    score: float


class _Segment(NamedTuple):
    """Where a part of a piece stands in a document."""

    piece: int
    offset: int
    start: int
    length: int


class _Document:
    """Parts of several pieces, as the service gets them."""

    def __init__(self) -> None:
        self.segments: list[_Segment] = []
        self._parts: list[str] = []
        self._length = self._bytes = 0

    @property
    def text(self) -> str:
        return _GAP.join(self._parts)

    def takes(self, text: str) -> bool:
        return not self._parts or self._bytes + len(text.encode()) <= MAX_BYTES

    def add(self, piece: int, offset: int, text: str) -> None:
        self.segments.append(_Segment(piece, offset, self._length, len(text)))
        self._parts.append(text)
        self._length += len(text) + len(_GAP)
        self._bytes += len(text.encode()) + len(_GAP)

    def places(self, entity: ComprehendEntity) -> Iterator[tuple[int, int, int]]:
        """Piece, start and end of an entity; one that spans several pieces is in each of them."""
        for segment in self.segments:
            start = max(entity.start - segment.start, 0)
            end = min(entity.end - segment.start, segment.length)
            if start < end:
                yield segment.piece, segment.offset + start, segment.offset + end


class _PreparedEntities:
    def __init__(self, detector: ComprehendDetector, rules: Sequence[Rule]) -> None:
        self._detector = detector
        self._rules = rules

    async def scan(self, pieces: Sequence[Scannable], *, wanted: frozenset[int] | None = None) -> Scan:
        """Ask once for all rules: the service tells every type that it finds."""
        rules = [number for number in range(len(self._rules)) if wanted is None or number in wanted]
        documents = _pack_documents(pieces)
        if not rules or not documents:
            return CLEAN
        if len(documents) > MAX_DOCUMENTS:
            reason = f"the message fills more than the {MAX_DOCUMENTS} requests that Comprehend is sent"
            return Scan(unchecked=dict.fromkeys(rules, reason))
        found = await self._detector.detect([document.text for document in documents])
        pairs = zip(documents, found, strict=True)
        matches = [
            match for document, entities in pairs for match in self._matches(document, entities, rules)
        ]
        return Scan(matches=deduplicate_matches(matches)) if matches else CLEAN

    def _matches(
        self, document: _Document, entities: Iterable[ComprehendEntity], rules: Sequence[int]
    ) -> Iterator[Match]:
        for entity in entities:
            for rule in rules:
                asked = self._rules[rule]
                if asked.what in (entity.kind, ANY_ENTITY) and entity.score >= asked.threshold:
                    for piece, start, end in document.places(entity):
                        yield Match(
                            rule=rule,
                            piece=piece,
                            start=start,
                            end=end,
                            entity=entity.kind,
                            score=entity.score,
                        )


def _pack_documents(pieces: Sequence[Scannable]) -> list[_Document]:
    """As few documents as hold all texts; blank ones are left out."""
    documents: list[_Document] = []
    for number, piece in enumerate(pieces):
        if not piece.text.strip():
            continue
        for offset, text in split_windows(_ASTRAL.sub("\ufffd", piece.text), size=WINDOW, overlap=OVERLAP):
            if not documents or not documents[-1].takes(text):
                documents.append(_Document())
            documents[-1].add(number, offset, text)
    return documents


def _parse_entity(raw: Mapping[str, Any], length: int) -> ComprehendEntity:
    entity = ComprehendEntity(
        str(raw["Type"]), int(raw["BeginOffset"]), int(raw["EndOffset"]), float(raw["Score"])
    )
    if not 0 <= entity.start < entity.end <= length:
        raise Unavailable("Comprehend named a place that the text does not have.")
    return entity
