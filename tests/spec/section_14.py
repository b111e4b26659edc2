"""Sections 14.1 and appendix F: reviews in A2A, ADL and WDL."""

from tests.spec.requirement import Requirement

SECTION_14: tuple[Requirement, ...] = (
    Requirement(
        id="14.1-input-required",
        section="14",
        level="STATED",
        text="A review is an A2A task in state input-required that carries the `hitl` object.",
        tests=(
            "tests/protocol/test_negotiation.py::test_a_202_becomes_a_task_that_requires_input_and_back",
            "tests/protocol/test_negotiation.py::test_a_decision_does_not_end_the_task",
            "tests/cli/test_convert.py::test_each_protocol_has_a_command",
        ),
        divergence="`hitl` is in the task's metadata, where A2A keeps what it does not define.",
    ),
)
APPENDIX_F: tuple[Requirement, ...] = (
    Requirement(
        id="F-adl-bridge",
        section="F",
        level="MAY",
        text="An ADL term leads to a review by its bridge.",
        tests=("tests/protocol/test_negotiation.py::test_a_term_gets_a_bridge_to_the_review",),
    ),
    Requirement(
        id="F-adl-response",
        section="F",
        level="STATED",
        text="The action of a review is the response to a deal.",
        tests=(
            "tests/protocol/test_negotiation.py::test_an_answer_becomes_the_response_to_a_deal",
            "tests/protocol/test_negotiation.py::test_missing_information_resolves_a_clarification",
        ),
    ),
    Requirement(
        id="F-wdl-draft",
        section="F",
        level="STATED",
        text="A WDL requirement says which review settles it.",
        tests=("tests/protocol/test_negotiation.py::test_a_requirement_becomes_the_draft_of_a_case",),
    ),
    Requirement(
        id="F-states",
        section="F",
        level="STATED",
        text="Each state of a review is a state of the deal and of the requirement.",
        tests=(
            "tests/protocol/test_negotiation.py::test_a_review_without_an_answer_is_no_agreement",
            "tests/protocol/test_negotiation.py::test_only_a_yes_is_a_match",
        ),
        divergence="A completed refusal is DECLINED and CONFLICT: only a yes is AGREED or MATCH.",
    ),
)
