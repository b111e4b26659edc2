"""The available detectors: built-in, registered, and installed as plug-ins."""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points

from placet.errors import SettingsError, ValidationFailed
from placet.ports.detector import Detector
from placet.protocol.conversion import quote
from placet.relay.detectors.comprehend import ComprehendDetector
from placet.relay.detectors.presidio import PresidioDetector
from placet.relay.detectors.regex_detector import RegexDetector
from placet.relay.policies.policy import (
    PLUGIN_PREFIX,
    DetectionConfig,
    PolicyDraft,
    build_rule,
    get_detection_type,
)

ENTRY_POINTS = "placet.detectors"


class DetectorRegistry:
    """Detectors by the type that policies name. Raises `SettingsError` for two of one type."""

    def __init__(self, detectors: Iterable[Detector]) -> None:
        self._detectors: dict[str, Detector] = {}
        for detector in detectors:
            if detector.type in self._detectors:
                raise SettingsError(f"Two detectors are registered for {detector.type}.")
            self._detectors[detector.type] = detector

    def get(self, kind: str) -> Detector | None:
        """The detector of this type, if there is one."""
        return self._detectors.get(kind)

    @property
    def in_order(self) -> Mapping[str, Detector]:
        """By type, in the order in which they are asked."""
        return self._detectors

    def check(self, draft: PolicyDraft, name: str = "policy") -> None:
        """Raise `ValidationFailed` unless the policy's detector is here and takes what it asks for."""
        self.check_config(draft.config, f"{name}.config")

    def check_config(self, config: DetectionConfig, name: str = "config") -> None:
        """Raise `ValidationFailed` unless the detector is here and takes what is asked for."""
        kind = get_detection_type(config)
        detector = self.get(kind)
        if detector is None:
            raise ValidationFailed(
                f"{name}.type: no detector for {quote(kind)} is installed here.", path=f"{name}.type"
            )
        try:
            detector.check(build_rule(config))
        except ValidationFailed as refusal:
            path = f"{name}.{refusal.details.get('path', 'type')}"
            raise ValidationFailed(f"{path}: {refusal.message}", path=path) from refusal

    async def aclose(self) -> None:
        """Close every detector."""
        for detector in self._detectors.values():
            await detector.aclose()


def load_detectors(
    *registered: Detector, presidio: Detector | None = None, comprehend: Detector | None = None
) -> DetectorRegistry:
    """All detectors in the order in which they are asked: local ones first, a service elsewhere last."""
    local = (RegexDetector(), presidio or PresidioDetector())
    return DetectorRegistry([*local, *registered, *load_entry_points(), comprehend or ComprehendDetector()])


def load_entry_points() -> list[Detector]:
    """The plug-ins of other packages: entry points in `placet.detectors`, each named by its `x-…` type."""
    found: list[Detector] = []
    for point in entry_points(group=ENTRY_POINTS):
        if not point.name.startswith(PLUGIN_PREFIX):
            raise SettingsError(f"The detector {point.name} of {point.value} must be named {PLUGIN_PREFIX}….")
        detector: Detector = point.load()()
        if detector.type != point.name:
            raise SettingsError(
                f"The detector {point.name} of {point.value} says its type is {detector.type}."
            )
        found.append(detector)
    return found
