"""The ledger: every requirement of the specification, section by section."""

from tests.spec import (
    section_06,
    section_07,
    section_07_5,
    section_08,
    section_08_5,
    section_09,
    section_10,
    section_10_3,
    section_11,
    section_12,
    section_13,
    since_07,
    since_08,
    since_09,
)
from tests.spec.requirement import Requirement

TITLES = {
    "6": "HTTP 202 response",
    "7": "Review URL",
    "7.5": "Inline submit, added in 0.6",
    "8": "Poll interface",
    "8.5": "Event stream",
    "9": "Callback interface",
    "10": "Review types",
    "10.3": "Forms",
    "11": "Review pages",
    "12": "SKILL.md",
    "13": "Security considerations",
    "0.7": "Changed in 0.7",
    "0.8": "Added in 0.8",
    "0.9": "Made firm in 0.9",
}
LEDGER: tuple[Requirement, ...] = (
    *section_06.REQUIREMENTS,
    *section_07.REQUIREMENTS,
    *section_07_5.REQUIREMENTS,
    *section_08.REQUIREMENTS,
    *section_08_5.REQUIREMENTS,
    *section_09.REQUIREMENTS,
    *section_10.REQUIREMENTS,
    *section_10_3.REQUIREMENTS,
    *section_11.REQUIREMENTS,
    *section_12.REQUIREMENTS,
    *section_13.REQUIREMENTS,
    *since_07.REQUIREMENTS,
    *since_08.REQUIREMENTS,
    *since_09.REQUIREMENTS,
)
