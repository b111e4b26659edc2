"""The available detectors: built-in, registered, and installed as plug-ins."""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points

from placet.errors import SettingsError, ValidationFailed
from placet.ports.detector import Detector
from placet.protocol.conversion import quote
from placet.relay.detectors.built_in import BuiltInDetector
from placet.relay.detectors.comprehend import ComprehendDetector
from placet.relay.detectors.presidio.detector import PresidioDetector
from placet.relay.detectors.regex import RegexDetector
from placet.relay.detectors.unreadable_text import UnreadableTextDetector
from placet.relay.policy.policy import (
    PLUGIN_PREFIX,
    DetectionConfig,
    PolicyDraft,
    build_rule,
    get_detection_type,
)

ENTRY_POINTS = "placet.detectors"
# A built-in detector is a module or package of this folder, and a line here.
LOCAL_DETECTORS = (RegexDetector, UnreadableTextDetector, PresidioDetector)
REMOTE_DETECTORS = (ComprehendDetector,)


class DetectorRegistry:
    """Detectors by the type in a policy's config. Raises `SettingsError` for two detectors of one type."""

    def __init__(self, detectors: Iterable[Detector]) -> None:
        self._detectors: dict[str, Detector] = {}
        for detector in detectors:
            if detector.type in self._detectors:
                raise SettingsError(f"Two detectors have the type {detector.type}. Remove one of them.")
            self._detectors[detector.type] = detector

    def get(self, detector_type: str) -> Detector | None:
        """Return the detector of this type, or None."""
        return self._detectors.get(detector_type)

    @property
    def by_type(self) -> Mapping[str, Detector]:
        """The detectors by type, in the order in which they scan."""
        return self._detectors

    def check(self, draft: PolicyDraft, name: str = "policy") -> None:
        """Raise `ValidationFailed` if the policy's detector is not installed or rejects its config."""
        self.check_config(draft.config, f"{name}.config")

    def check_config(self, config: DetectionConfig, name: str = "config") -> None:
        """Raise `ValidationFailed` if the detector of the config is not installed or rejects the config."""
        detector_type = get_detection_type(config)
        detector = self.get(detector_type)
        if detector is None:
            raise ValidationFailed(
                f"{name}.type: no detector for {quote(detector_type)} is installed.", path=f"{name}.type"
            )
        try:
            detector.check(build_rule(config))
        except ValidationFailed as refusal:
            path = f"{name}.{refusal.details.get('path', 'type')}"
            raise ValidationFailed(f"{path}: {refusal.message}", path=path) from refusal

    def list_starting(self) -> list[str]:
        """Return the names of detectors that policies need and that are not ready yet."""
        return [
            detector.title
            for detector in self._detectors.values()
            if isinstance(detector, BuiltInDetector) and detector.is_starting
        ]

    async def aclose(self) -> None:
        """Close every detector."""
        for detector in self._detectors.values():
            await detector.aclose()


def load_detectors(*registered: Detector, instead: Iterable[Detector] = ()) -> DetectorRegistry:
    """Return all detectors in the order in which they scan: local detectors first, remote services last.

    `instead` are detectors that replace the built-in ones of their type.
    """
    replaced = {detector.type: detector for detector in instead}
    local, remote = (
        [replaced.get(built_in.type) or built_in() for built_in in group]
        for group in (LOCAL_DETECTORS, REMOTE_DETECTORS)
    )
    return DetectorRegistry([*local, *registered, *load_entry_points(), *remote])


def load_entry_points() -> list[Detector]:
    """Return the detectors of other packages: entry points in `placet.detectors`, named by their type."""
    detectors: list[Detector] = []
    for point in entry_points(group=ENTRY_POINTS):
        if not point.name.startswith(PLUGIN_PREFIX):
            raise SettingsError(
                f"The name of the detector {point.name} ({point.value}) must start with {PLUGIN_PREFIX}."
            )
        detector: Detector = point.load()()
        if detector.type != point.name:
            raise SettingsError(
                f"The detector {point.name} ({point.value}) has the type {detector.type}. "
                "Its entry point must have the same name as its type."
            )
        detectors.append(detector)
    return detectors
