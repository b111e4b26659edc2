"""Run a tenant's detectors over a message, each with a time limit, and evaluate the result."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from placet.errors import DetectorBusy
from placet.ports.detector import CLEAN, Detector, PreparedRules, Scan, Scannable
from placet.relay.a2a.text_normalization import (
    AlternateReading,
    ScanTexts,
    append_readings,
    find_alternate_readings,
    map_matches_to_source,
    substitute_readings,
)
from placet.relay.detectors.built_in import BuiltInDetector, InlineRules
from placet.relay.detectors.regex import INLINE_CHARACTERS
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.detectors.stream_plan import StreamPlan, build_leg_finder, plan_stream, refine_plan
from placet.relay.policy.evaluation import (
    DetectorResult,
    Evaluation,
    build_clean_evaluation,
    build_near_misses,
    evaluate_scans,
    is_final,
)
from placet.relay.policy.policy import RESPONSE_LEGS, Leg, Policy, PolicyAction, build_rule
from placet.relay.policy.policy_set import ApplicablePolicies, AppliedPolicy, PolicySet
from placet.relay.policy.verdict import PASS, UNWATCHED, PolicyVerdict
from placet.relay.tenants import StreamingMode
from placet.relay.traceback_redaction import redact_traceback

logger = logging.getLogger(__name__)
MAX_VIEWS = 10_000
"""The maximum number of cached views, one for each source, sink and leg."""


class PlainMessage(Protocol):
    """A message whose JSON may be scanned as a whole."""

    @property
    def plain(self) -> bytes | None:
        """Bytes that can be scanned instead of each text (see `build_plain_json`), or None."""
        ...


class _RuleBundle(Struct, frozen=True, kw_only=True):
    """The rules of one detector on one leg, prepared once for all sources and sinks."""

    detector_type: str
    detector: Detector | None
    prepared: PreparedRules | None
    is_slow: bool
    scans_readings: bool
    max_wait: timedelta
    scan_inline: Callable[[Sequence[Scannable], frozenset[int] | None], Scan | None] | None
    """Scans a short message without waiting. None if the detector cannot."""
    is_clear: Callable[[bytes], bool] | None
    """Whether no rule and nothing of `UNUSUAL_JSON` matches a message's JSON. None if it cannot tell."""
    rule_numbers: Mapping[tuple[str, str], int]


class _Step(Struct, frozen=True, kw_only=True):
    """The rules of a bundle that apply to one pair, each with the index of its applied policy."""

    bundle: _RuleBundle
    rules: Mapping[int, int]
    wanted: frozenset[int] | None


class _PairView(Struct, frozen=True, kw_only=True):
    """The policies that apply to one source and sink on one leg, and their scan steps."""

    applicable: ApplicablePolicies
    steps: tuple[_Step, ...]
    clean: Evaluation
    strictest: PolicyAction | None
    is_permanent: bool
    """Whether the view has no start and no end, so that no clock is needed to use it."""
    stream_plans: dict[StreamingMode | None, StreamPlan] = field(default_factory=dict)
    """The plans for streams, by the mode of the agent."""


class PolicyEvaluator:
    """Evaluates the messages of one tenant against its policy set.

    The constructor compiles every pattern. With thousands of policies, call it in a thread. Messages never
    wait for a pattern to compile.
    """

    def __init__(self, policy_set: PolicySet, detectors: DetectorRegistry) -> None:
        self._policy_set = policy_set
        self._views: dict[tuple[str, str, Leg], _PairView] = {}
        shared: dict[tuple[str, tuple[tuple[str, str], ...]], _RuleBundle] = {}
        self._finders = {leg: build_leg_finder(policy_set.list_bound(leg)) for leg in RESPONSE_LEGS}
        self._bundles = {leg: _build_bundles(policy_set.list_bound(leg), detectors, shared) for leg in Leg}

    async def inspect(
        self, pieces: Sequence[Scannable], *, source: str, sink: str, leg: Leg, at: datetime
    ) -> Evaluation:
        """Evaluate the texts of a message. If a detector fails, the outcome is to hold the message.

        Raises DetectorBusy if a detector has no time to check them.
        """
        view = self._get_view(source, sink, leg, at)
        applied = view.applicable.policies
        scans: list[tuple[_Step, Scan]] = []
        is_clean = True
        readings = await _find_readings(pieces) if view.steps else []
        for step in view.steps:
            scan = await _scan_readings(step, pieces, readings)
            scans.append((step, scan))
            if scan is not CLEAN and (scan.matches or scan.unchecked):
                is_clean = False
                if is_final(applied, _build_result(step, scan), pieces):
                    break
        results = [_build_result(step, scan) for step, scan in scans]
        evaluation = view.clean if is_clean else evaluate_scans(applied, results, pieces)
        near_misses = build_near_misses(applied, results, pieces)
        return replace(evaluation, near_misses=near_misses) if near_misses else evaluation

    def inspect_quickly(
        self, message: PlainMessage, *, source: str, sink: str, leg: Leg, now: Callable[[], datetime]
    ) -> PolicyVerdict | None:
        """Return UNWATCHED if no policy applies, and PASS if no rule matches the message's JSON.

        None means that the message must be inspected. It is also returned after any failure.
        """
        try:
            view = self._views.get((source, sink, leg))
            if view is None or not view.is_permanent:
                view = self._get_view(source, sink, leg, now())
            if view.strictest is None:
                return UNWATCHED
            plain = message.plain
            if plain is None:
                return None
            for step in view.steps:
                is_clear = step.bundle.is_clear
                if is_clear is None or not is_clear(plain):
                    return None
        except Exception as error:
            logger.error("quick_check_failed error=%s", redact_traceback(error))
            return None
        return PASS

    def applies(self, *, source: str, sink: str, leg: Leg, at: datetime) -> tuple[AppliedPolicy, ...]:
        """Return the policies that apply, in order."""
        return self._get_view(source, sink, leg, at).applicable.policies

    def list_acting(self, *, source: str, sink: str, leg: Leg, at: datetime) -> tuple[AppliedPolicy, ...]:
        """Return the policies that apply and mask, hold or block, so without those that only log."""
        policies = self.applies(source=source, sink=sink, leg=leg, at=at)
        return tuple(
            applied
            for applied in policies
            if applied.policy.action.strictness >= PolicyAction.MASK.strictness
        )

    def strictest(self, *, source: str, sink: str, leg: Leg, at: datetime) -> PolicyAction | None:
        """Return the strictest action of the policies that apply, or None if no policy applies."""
        return self._get_view(source, sink, leg, at).strictest

    def plan_stream(
        self, *, source: str, sink: str, leg: Leg, at: datetime, agent: StreamingMode | None = None
    ) -> StreamPlan:
        """Return how a stream is inspected on a response leg. `agent` is the mode of the agent's settings."""
        view = self._get_view(source, sink, leg, at)
        if agent not in view.stream_plans:
            policies = (applied.policy for applied in view.applicable.policies)
            view.stream_plans[agent] = refine_plan(plan_stream(policies, agent), self._finders[leg])
        return view.stream_plans[agent]

    def _get_view(self, source: str, sink: str, leg: Leg, at: datetime) -> _PairView:
        view = self._views.get((source, sink, leg))
        if view is None or not view.applicable.is_current(at):
            view = self._views[source, sink, leg] = self._build_view(source, sink, leg, at)
            while len(self._views) > MAX_VIEWS:
                del self._views[next(iter(self._views))]
        return view

    def _build_view(self, source: str, sink: str, leg: Leg, at: datetime) -> _PairView:
        applicable = self._policy_set.find_applicable(source=source, sink=sink, leg=leg, at=at)
        indexes = {applied.policy.key: i for i, applied in enumerate(applicable.policies)}
        steps = (_build_step(bundle, indexes) for bundle in self._bundles[leg])
        return _PairView(
            applicable=applicable,
            steps=tuple(step for step in steps if step.rules),
            clean=build_clean_evaluation(applicable.policies),
            is_permanent=applicable.since is None and applicable.until is None,
            strictest=max(
                (applied.policy.action for applied in applicable.policies),
                key=lambda action: action.strictness,
                default=None,
            ),
        )


async def _find_readings(pieces: Sequence[Scannable]) -> list[AlternateReading]:
    """Return the alternate readings of the texts. Uses a thread if the texts are long."""
    if sum(len(piece.text) for piece in pieces) <= INLINE_CHARACTERS:
        return find_alternate_readings(pieces)
    return await asyncio.to_thread(find_alternate_readings, pieces)


async def _scan_readings(
    step: _Step, pieces: Sequence[Scannable], readings: Sequence[AlternateReading]
) -> Scan:
    """Return the scan of the texts and their alternate readings, with matches in the texts."""
    if not readings or not step.bundle.scans_readings:
        return _scan_inline(step, pieces) or await _scan_async(step, pieces)
    scanned = (substitute_readings if step.bundle.is_slow else append_readings)(pieces, readings)
    scan = _scan_inline(step, scanned.texts) or await _scan_async(step, scanned.texts)
    if not scan.matches and not scan.near_misses:
        return scan
    if sum(len(text.text) for text in scanned.texts) <= INLINE_CHARACTERS:
        return _map_scan(scan, pieces, scanned)
    return await asyncio.to_thread(_map_scan, scan, pieces, scanned)


def _map_scan(scan: Scan, pieces: Sequence[Scannable], scanned: ScanTexts) -> Scan:
    """Return the scan with matches in the original texts."""
    return replace(
        scan,
        matches=map_matches_to_source(scan.matches, pieces, scanned),
        near_misses=map_matches_to_source(scan.near_misses, pieces, scanned),
    )


def _build_result(step: _Step, scan: Scan) -> DetectorResult:
    return DetectorResult(detector=step.bundle.detector_type, rules=step.rules, scan=scan)


def _scan_inline(step: _Step, pieces: Sequence[Scannable]) -> Scan | None:
    """Return the scan of a detector that need not wait, or None if `_scan_async` must be used."""
    if step.bundle.scan_inline is None:
        return None
    try:
        scan = step.bundle.scan_inline(pieces, step.wanted)
    except Exception as error:
        logger.error(
            "detector_inline_scan_failed detector=%s error=%s",
            step.bundle.detector_type,
            redact_traceback(error),
        )
        return None
    return scan if scan is None or scan is CLEAN or _is_valid_scan(scan) else None


async def _scan_async(step: _Step, pieces: Sequence[Scannable]) -> Scan:
    """Return the detector's scan. A failure makes all rules of the step unchecked."""
    bundle = step.bundle
    name = bundle.detector_type
    if bundle.detector is None or bundle.prepared is None:
        return _build_failed_scan(step, f"no detector for {name} is ready")
    try:
        async with asyncio.timeout((bundle.max_wait + bundle.detector.within).total_seconds()):
            scan = await bundle.prepared.scan(pieces, wanted=step.wanted)
    except TimeoutError:
        return _build_failed_scan(step, f"{name} took too long")
    except DetectorBusy:
        raise
    except Exception as error:  # a plug-in may raise anything
        logger.error("detector_failed detector=%s effect=hold error=%s", name, redact_traceback(error))
        return _build_failed_scan(step, f"{name} failed ({type(error).__name__})")
    if scan is CLEAN or _is_valid_scan(scan):
        return scan
    return _build_failed_scan(step, f"{name} returned an invalid result")


def _is_valid_scan(scan: object) -> bool:
    """Whether a detector returned a `Scan` whose fields all have the declared types."""
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
    by_type: dict[str, list[Policy]] = {detector_type: [] for detector_type in detectors.by_type}
    for policy in policies:
        by_type.setdefault(policy.policy_type, []).append(policy)
    bundles: list[_RuleBundle] = []
    for detector_type, of_type in by_type.items():
        if of_type:
            key = (detector_type, tuple(policy.key for policy in of_type))
            if key not in shared:
                shared[key] = _build_bundle(detector_type, of_type, detectors.get(detector_type))
            bundles.append(shared[key])
    return tuple(bundles)


def _build_bundle(detector_type: str, policies: Sequence[Policy], detector: Detector | None) -> _RuleBundle:
    prepared: PreparedRules | None = None
    try:
        if detector is not None:
            prepared = detector.prepare([build_rule(policy.config) for policy in policies])
    except Exception:
        logger.exception("detector_prepare_failed detector=%s effect=hold", detector_type)
    built_in = detector if isinstance(detector, BuiltInDetector) else BuiltInDetector()
    inline = prepared if isinstance(prepared, InlineRules) else None
    return _RuleBundle(
        detector_type=detector_type,
        detector=detector,
        prepared=prepared,
        is_slow=built_in.is_slow,
        scans_readings=built_in.scans_readings,
        max_wait=built_in.max_wait,
        scan_inline=inline.scan_inline if inline is not None else None,
        is_clear=inline.is_clear if inline is not None else None,
        rule_numbers={policy.key: number for number, policy in enumerate(policies)},
    )


def _build_step(bundle: _RuleBundle, indexes: Mapping[tuple[str, str], int]) -> _Step:
    rules = {number: indexes[key] for key, number in bundle.rule_numbers.items() if key in indexes}
    return _Step(
        bundle=bundle,
        rules=rules,
        wanted=None if len(rules) == len(bundle.rule_numbers) else frozenset(rules),
    )
