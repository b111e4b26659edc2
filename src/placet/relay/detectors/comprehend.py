"""The detector for personal data with Amazon Comprehend, a remote service."""

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
from placet.relay.detectors.built_in import BuiltInDetector
from placet.relay.detectors.text_windows import deduplicate_matches, split_windows
from placet.text.characters import SURROGATES

ENTITIES = frozenset(
    {
        "ADDRESS",
        "AGE",
        "ALL",
        "AWS_ACCESS_KEY",
        "AWS_SECRET_KEY",
        "BANK_ACCOUNT_NUMBER",
        "BANK_ROUTING",
        "CA_HEALTH_NUMBER",
        "CA_SOCIAL_INSURANCE_NUMBER",
        "CREDIT_DEBIT_CVV",
        "CREDIT_DEBIT_EXPIRY",
        "CREDIT_DEBIT_NUMBER",
        "DATE_TIME",
        "DRIVER_ID",
        "EMAIL",
        "INTERNATIONAL_BANK_ACCOUNT_NUMBER",
        "IN_AADHAAR",
        "IN_NREGA",
        "IN_PERMANENT_ACCOUNT_NUMBER",
        "IN_VOTER_NUMBER",
        "IP_ADDRESS",
        "LICENSE_PLATE",
        "MAC_ADDRESS",
        "NAME",
        "PASSPORT_NUMBER",
        "PASSWORD",
        "PHONE",
        "PIN",
        "SSN",
        "SWIFT_CODE",
        "UK_NATIONAL_HEALTH_SERVICE_NUMBER",
        "UK_NATIONAL_INSURANCE_NUMBER",
        "UK_UNIQUE_TAXPAYER_REFERENCE_NUMBER",
        "URL",
        "USERNAME",
        "US_INDIVIDUAL_TAX_IDENTIFICATION_NUMBER",
        "VEHICLE_IDENTIFICATION_NUMBER",
    }
)


DEFAULT_TIMEOUT = timedelta(seconds=10)
THREADS = 8
MAX_TEXT_BYTES = 96_000
"""The service accepts 100 KB of UTF-8 in a request."""
WINDOW, OVERLAP = MAX_TEXT_BYTES // 3, 500
"""A window has at most a third of the bytes in characters, because a character takes up to three bytes."""
MAX_DOCUMENTS = 32
ANY_ENTITY = "ALL"
_GAP = "\n\n"
# The service does not document whether these count as one or two characters, so they are replaced.
_ASTRAL = re.compile(f"[{SURROGATES}\U00010000-\U0010ffff]")


class ComprehendDetector(BuiltInDetector):
    """Detects entities for policies of type `COMPREHEND_DETECTION`. Needs the extra `placet[comprehend]`.

    boto3 finds the credentials and the region, unless `client_options` set them. Every text that a
    Comprehend policy applies to is sent to the service.
    """

    type = "COMPREHEND_DETECTION"
    is_slow = True

    def __init__(
        self,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        language: str = "en",
        within: timedelta = DEFAULT_TIMEOUT,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.within = within
        self.language = language
        self._options = {"region_name": region, "endpoint_url": endpoint_url, **(client_options or {})}
        self._threads = ThreadPoolExecutor(THREADS, "placet-comprehend")
        self._client: Any = None
        self._lock = threading.Lock()

    def check(self, rule: Rule) -> None:
        """Raise ValidationFailed if Comprehend does not support the entity type."""
        if not is_available("comprehend"):
            raise ValidationFailed(MissingExtra.of(self.type, "comprehend").message, path="entity.type")
        if rule.what not in ENTITIES:
            known = ", ".join(sorted(ENTITIES))
            raise ValidationFailed(
                f"{quote(rule.what)} is not an entity type of Comprehend. Use one of {known}.",
                path="entity.type",
            )

    def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
        """Return the rules, ready to scan. There is nothing to compile."""
        return _PreparedEntities(self, rules)

    async def detect(self, documents: Sequence[str]) -> list[list["ComprehendEntity"]]:
        """Return the entities of each document. Sends requests in parallel and raises the first failure."""
        loop = asyncio.get_running_loop()
        requests = (loop.run_in_executor(self._threads, self._detect, document) for document in documents)
        return list(await asyncio.gather(*requests))

    async def aclose(self) -> None:
        """Close the connections. Requests in progress end when they time out."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            self._client.close()

    def _detect(self, document: str) -> list["ComprehendEntity"]:
        response = self._get_client().detect_pii_entities(Text=document, LanguageCode=self.language)
        return [_parse_entity(raw, len(document)) for raw in response["Entities"]]

    def _get_client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._create_client()
            return self._client

    def _create_client(self) -> Any:
        import boto3
        from botocore.config import Config

        timeout_s = self.within.total_seconds()
        config = Config(
            connect_timeout=timeout_s,
            read_timeout=timeout_s,
            retries={"mode": "standard", "total_max_attempts": 2},
            max_pool_connections=16,
        )
        return boto3.session.Session().client("comprehend", config=config, **self._options)


class ComprehendEntity(NamedTuple):
    """An entity that the service found in a document."""

    type: str
    start: int
    end: int
    score: float


class _Segment(NamedTuple):
    """The position of a part of a piece in a document."""

    piece: int
    offset: int
    start: int
    length: int


class _Document:
    """The text of one request to the service, joined from parts of several pieces."""

    def __init__(self) -> None:
        self.segments: list[_Segment] = []
        self._parts: list[str] = []
        self._length = self._bytes = 0

    @property
    def text(self) -> str:
        return _GAP.join(self._parts)

    def has_room_for(self, text: str) -> bool:
        return not self._parts or self._bytes + len(text.encode()) <= MAX_TEXT_BYTES

    def add(self, piece: int, offset: int, text: str) -> None:
        self.segments.append(_Segment(piece, offset, self._length, len(text)))
        self._parts.append(text)
        self._length += len(text) + len(_GAP)
        self._bytes += len(text.encode()) + len(_GAP)

    def locate(self, entity: ComprehendEntity) -> Iterator[tuple[int, int, int]]:
        """Yield the piece, start and end of an entity, for each piece that it spans."""
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
        """Return the matches of the wanted rules. One request covers all rules."""
        rules = [rule for rule in range(len(self._rules)) if wanted is None or rule in wanted]
        documents = _pack_documents(pieces)
        if not rules or not documents:
            return CLEAN
        if len(documents) > MAX_DOCUMENTS:
            reason = f"the message needs more than {MAX_DOCUMENTS} requests to Comprehend"
            return Scan(unchecked=dict.fromkeys(rules, reason))
        detected = await self._detector.detect([document.text for document in documents])
        pairs = zip(documents, detected, strict=True)
        matches = [
            match for document, entities in pairs for match in self._list_matches(document, entities, rules)
        ]
        return Scan(matches=deduplicate_matches(matches)) if matches else CLEAN

    def _list_matches(
        self, document: _Document, entities: Iterable[ComprehendEntity], rules: Sequence[int]
    ) -> Iterator[Match]:
        for entity in entities:
            for index in rules:
                rule = self._rules[index]
                if rule.what in (entity.type, ANY_ENTITY) and entity.score >= rule.threshold:
                    for piece, start, end in document.locate(entity):
                        yield Match(
                            rule=index,
                            piece=piece,
                            start=start,
                            end=end,
                            entity=entity.type,
                            score=entity.score,
                        )


def _pack_documents(pieces: Sequence[Scannable]) -> list[_Document]:
    """Pack all texts that are not blank into as few documents as possible."""
    documents: list[_Document] = []
    for index, piece in enumerate(pieces):
        if not piece.text.strip():
            continue
        for offset, text in split_windows(_ASTRAL.sub("\ufffd", piece.text), size=WINDOW, overlap=OVERLAP):
            if not documents or not documents[-1].has_room_for(text):
                documents.append(_Document())
            documents[-1].add(index, offset, text)
    return documents


def _parse_entity(raw: Mapping[str, Any], length: int) -> ComprehendEntity:
    entity = ComprehendEntity(
        str(raw["Type"]), int(raw["BeginOffset"]), int(raw["EndOffset"]), float(raw["Score"])
    )
    if not 0 <= entity.start < entity.end <= length:
        raise Unavailable("Comprehend returned a position that is not in the text.")
    return entity
