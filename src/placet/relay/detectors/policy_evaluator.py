"""Run a tenant's detectors over a message, each with a time limit, and evaluate the result."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.ports.detector import CLEAN, Detector, PreparedRules, Scan, Scannable
from placet.relay.a2a.text_normalization import (
    AlternateReading,
    append_readings,
    find_alternate_readings,
    map_matches_to_source,
    substitute_readings,
)
from placet.relay.detectors.regex_detector import INLINE_CHARACTERS, PreparedPatterns
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.message_inspector import QuickCheck
from placet.relay.policies.evaluation import (
    DetectorResult,
    Evaluation,
    build_clean_evaluation,
    evaluate_scans,
    is_final,
)
from placet.relay.policies.policy import Leg, Policy, PolicyAction, build_rule
from placet.relay.policies.policy_set import ApplicablePolicies, AppliedPolicy, PolicySet
from placet.relay.traceback_redaction import redact_traceback

logger = logging.getLogger(__name__)
SLOW_DETECTORS = frozenset({"PRESIDIO_DETECTION", "COMPREHEND_DETECTION"})
"""They take long or cost something, and would find nothing in what people do not see."""
MAX_VIEWS = 10_000
"""For so many pairs of source and sink it is remembered what applies to them."""


class PlainMessage(Protocol):
    """A message that may stand in one piece of JSON."""

    @property
    def plain(self) -> bytes | None:
        """All of it, if every text that counts stands there as it is, but for what is `UNUSUAL`."""
        ...


class _RuleBundle(Struct, frozen=True, kw_only=True):
    """The rules of one detector on one leg, made ready once for all sources and sinks."""

    kind: str
    detector: Detector | None
    prepared: PreparedRules | None
    at_once: Callable[[Sequence[Scannable], frozenset[int] | None], Scan | None] | None
    """How a message is scanned without waiting, if the detector knows how."""
    clears: Callable[[bytes], bool] | None
    """Whether nothing fits anywhere in a message as JSON, nor anything `UNUSUAL`, if a detector can tell."""
    numbers: Mapping[tuple[str, str], int]


class _Step(Struct, frozen=True, kw_only=True):
    """What one bundle is asked about one pair: which rules, and which applied policy each of them is."""

    bundle: _RuleBundle
    rules: Mapping[int, int]
    wanted: frozenset[int] | None


class _PairView(Struct, frozen=True, kw_only=True):
    """What applies to a pair on a leg for a while."""

    applicable: ApplicablePolicies
    steps: tuple[_Step, ...]
    clean: Evaluation
    strictest: PolicyAction | None
    for_ever: bool
    """Whether it applies at any moment."""


class PolicyEvaluator:
    """Looks at the messages of one tenant as one book of policies says.

    Making one compiles every pattern; with thousands of policies do it in a thread. No message ever waits for
    a pattern to be compiled.
    """

    def __init__(self, book: PolicySet, detectors: DetectorRegistry) -> None:
        self._book = book
        self._views: dict[tuple[str, str, Leg], _PairView] = {}
        shared: dict[tuple[str, tuple[tuple[str, str], ...]], _RuleBundle] = {}
        self._bundles = {leg: _build_bundles(book.list_bound(leg), detectors, shared) for leg in Leg}

    async def inspect(
        self, pieces: Sequence[Scannable], *, source: str, sink: str, leg: Leg, at: datetime
    ) -> Evaluation:
        """What becomes of a message with these texts; whatever a detector fails at holds it."""
        view = self._view(source, sink, leg, at)
        applied = view.applicable.policies
        scans: list[tuple[_Step, Scan]] = []
        notable = False
        others = await _find_readings(pieces) if view.steps else []
        for step in view.steps:
            scan = await _scan_all(step, pieces, others)
            scans.append((step, scan))
            if scan is not CLEAN and (scan.matches or scan.unchecked):
                notable = True
                if is_final(applied, _build_result(step, scan), pieces):
                    break
        if not notable:
            return view.clean
        return evaluate_scans(applied, [_build_result(step, scan) for step, scan in scans], pieces)

    def check_quickly(
        self, message: PlainMessage, *, source: str, sink: str, leg: Leg, now: Callable[[], datetime]
    ) -> QuickCheck:
        """Whether nothing looks, or nothing fits anywhere in a message's JSON; any failure leaves it open."""
        try:
            view = self._views.get((source, sink, leg))
            if view is None or not view.for_ever:
                view = self._view(source, sink, leg, now())
            if view.strictest is None:
                return QuickCheck.UNWATCHED
            plain = message.plain
            if plain is None:
                return QuickCheck.UNSURE
            for step in view.steps:
                clears = step.bundle.clears
                if clears is None or not clears(plain):
                    return QuickCheck.UNSURE
        except Exception as error:
            logger.error("quick_check_failed error=%s", redact_traceback(error))
            return QuickCheck.UNSURE
        return QuickCheck.CLEAR

    def applies(self, *, source: str, sink: str, leg: Leg, at: datetime) -> tuple[AppliedPolicy, ...]:
        """The policies that are looked at, in order."""
        return self._view(source, sink, leg, at).applicable.policies

    def list_acting(self, *, source: str, sink: str, leg: Leg, at: datetime) -> tuple[AppliedPolicy, ...]:
        """Those of them that would not only note what they find, but mask, hold or block it."""
        applied = self.applies(source=source, sink=sink, leg=leg, at=at)
        return tuple(one for one in applied if one.policy.action.strictness >= PolicyAction.MASK.strictness)

    def strictest(self, *, source: str, sink: str, leg: Leg, at: datetime) -> PolicyAction | None:
        """The most that may happen to a message; None if nothing looks at it."""
        return self._view(source, sink, leg, at).strictest

    def _view(self, source: str, sink: str, leg: Leg, at: datetime) -> _PairView:
        view = self._views.get((source, sink, leg))
        if view is None or not view.applicable.holds(at):
            view = self._views[source, sink, leg] = self._build_view(source, sink, leg, at)
            while len(self._views) > MAX_VIEWS:
                del self._views[next(iter(self._views))]
        return view

    def _build_view(self, source: str, sink: str, leg: Leg, at: datetime) -> _PairView:
        applicable = self._book.find_applicable(source=source, sink=sink, leg=leg, at=at)
        places = {_get_policy_key(one.policy): place for place, one in enumerate(applicable.policies)}
        steps = (_build_step(bundle, places) for bundle in self._bundles[leg])
        return _PairView(
            applicable=applicable,
            steps=tuple(step for step in steps if step.rules),
            clean=build_clean_evaluation(applicable.policies),
            for_ever=applicable.since is None and applicable.until is None,
            strictest=max(
                (one.policy.action for one in applicable.policies),
                key=lambda action: action.strictness,
                default=None,
            ),
        )


async def _find_readings(pieces: Sequence[Scannable]) -> list[AlternateReading]:
    """How else the texts may be read; long ones are gone through in a thread."""
    if sum(len(piece.text) for piece in pieces) <= INLINE_CHARACTERS:
        return find_alternate_readings(pieces)
    return await asyncio.to_thread(find_alternate_readings, pieces)


async def _scan_all(step: _Step, pieces: Sequence[Scannable], others: Sequence[AlternateReading]) -> Scan:
    """What the detector says of the texts, in whichever way they are read."""
    if not others:
        return _scan_now(step, pieces) or await _scan_async(step, pieces)
    scanned = (substitute_readings if step.bundle.kind in SLOW_DETECTORS else append_readings)(pieces, others)
    scan = _scan_now(step, scanned.texts) or await _scan_async(step, scanned.texts)
    if not scan.matches:
        return scan
    if sum(len(one.text) for one in scanned.texts) <= INLINE_CHARACTERS:
        return replace(scan, matches=map_matches_to_source(scan.matches, pieces, scanned))
    return replace(
        scan, matches=await asyncio.to_thread(map_matches_to_source, scan.matches, pieces, scanned)
    )


def _build_result(step: _Step, scan: Scan) -> DetectorResult:
    return DetectorResult(detector=step.bundle.kind, rules=step.rules, scan=scan)


def _scan_now(step: _Step, pieces: Sequence[Scannable]) -> Scan | None:
    """What a detector says that need not wait; None where it must be asked in the other way."""
    if step.bundle.at_once is None:
        return None
    try:
        scan = step.bundle.at_once(pieces, step.wanted)
    except Exception as error:
        logger.error(
            "detector_inline_scan_failed detector=%s error=%s", step.bundle.kind, redact_traceback(error)
        )
        return None
    return scan if scan is None or scan is CLEAN or _is_valid_scan(scan) else None


async def _scan_async(step: _Step, pieces: Sequence[Scannable]) -> Scan:
    """What the detector says; its failures become reasons to hold."""
    bundle = step.bundle
    if bundle.detector is None or bundle.prepared is None:
        return _build_failed_scan(step, f"no detector for {bundle.kind} is ready here")
    try:
        async with asyncio.timeout(bundle.detector.within.total_seconds()):
            scan = await bundle.prepared.scan(pieces, wanted=step.wanted)
    except TimeoutError:
        return _build_failed_scan(step, f"{bundle.kind} took too long")
    except Exception as error:  # whatever a plug-in raises
        logger.error("detector_failed detector=%s effect=hold error=%s", bundle.kind, redact_traceback(error))
        return _build_failed_scan(step, f"{bundle.kind} failed ({type(error).__name__})")
    return (
        scan
        if scan is CLEAN or _is_valid_scan(scan)
        else _build_failed_scan(step, f"{bundle.kind} gave no proper answer")
    )


def _is_valid_scan(scan: object) -> bool:
    """Whether a detector's answer is what the port asks for, down to its last number."""
    try:
        msgspec.convert(msgspec.to_builtins(scan), Scan)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(scan, Scan)


def _build_failed_scan(step: _Step, reason: str) -> Scan:
    return Scan(unchecked=dict.fromkeys(step.rules, reason))


def _build_bundles(
    policies: Sequence[Policy],
    detectors: DetectorRegistry,
    shared: dict[tuple[str, tuple[tuple[str, str], ...]], _RuleBundle],
) -> tuple[_RuleBundle, ...]:
    kinds: dict[str, list[Policy]] = {kind: [] for kind in detectors.in_order}
    for policy in policies:
        kinds.setdefault(policy.policy_type, []).append(policy)
    bundles: list[_RuleBundle] = []
    for kind, listed in kinds.items():
        if listed:
            name = (kind, tuple(_get_policy_key(policy) for policy in listed))
            if name not in shared:
                shared[name] = _build_bundle(kind, listed, detectors.get(kind))
            bundles.append(shared[name])
    return tuple(bundles)


def _build_bundle(kind: str, policies: Sequence[Policy], detector: Detector | None) -> _RuleBundle:
    prepared: PreparedRules | None = None
    try:
        if detector is not None:
            prepared = detector.prepare([build_rule(policy.config) for policy in policies])
    except Exception:
        logger.exception("detector_prepare_failed detector=%s effect=hold", kind)
    numbers = {_get_policy_key(policy): number for number, policy in enumerate(policies)}
    # Not by the names of methods: a plug-in may have some of these names that mean something else.
    patterns = prepared if isinstance(prepared, PreparedPatterns) else None
    return _RuleBundle(
        kind=kind,
        detector=detector,
        prepared=prepared,
        at_once=patterns.scan_now if patterns is not None else None,
        clears=patterns.clears if patterns is not None else None,
        numbers=numbers,
    )


def _build_step(bundle: _RuleBundle, places: Mapping[tuple[str, str], int]) -> _Step:
    rules = {number: places[key] for key, number in bundle.numbers.items() if key in places}
    return _Step(
        bundle=bundle,
        rules=rules,
        wanted=None if len(rules) == len(bundle.numbers) else frozenset(rules),
    )


def _get_policy_key(policy: Policy) -> tuple[str, str]:
    return (policy.policy_id, policy.version)
