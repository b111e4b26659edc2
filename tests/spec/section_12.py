"""Section 12: how a skill declares that a person may be asked."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="12-supported",
        section="12",
        level="REQUIRED",
        text="`supported` says that a person may be asked.",
        tests=("tests/protocol/test_skill.py::test_front_matter_declares_what_the_service_may_ask",),
    ),
    Requirement(
        id="12-types",
        section="12",
        level="RECOMMENDED",
        text="`types` lists the types of review.",
        tests=(
            "tests/protocol/test_skill.py::test_front_matter_declares_what_the_service_may_ask",
            "tests/protocol/test_skill.py::test_custom_types_are_declared_too",
        ),
    ),
    Requirement(
        id="12-review-base-url",
        section="12",
        level="OPTIONAL",
        text="`review_base_url` says where pages are.",
        tests=(
            "tests/protocol/test_skill.py::test_front_matter_declares_what_the_service_may_ask",
            "tests/protocol/test_skill.py::test_omitted_fields_are_not_declared",
        ),
    ),
    Requirement(
        id="12-timeout-default",
        section="12",
        level="OPTIONAL",
        text="`timeout_default` says how long cases stay open.",
        tests=(
            "tests/protocol/test_skill.py::test_front_matter_declares_what_the_service_may_ask",
            "tests/protocol/test_skill.py::test_omitted_fields_are_not_declared",
        ),
    ),
    Requirement(
        id="12-info",
        section="12",
        level="RECOMMENDED",
        text="`info` says in at most 200 characters when a person is asked.",
        tests=(
            "tests/protocol/test_skill.py::test_front_matter_declares_what_the_service_may_ask",
            "tests/protocol/test_skill.py::test_a_declaration_agents_could_not_use_is_refused",
        ),
    ),
    Requirement(
        id="12-body",
        section="12",
        level="SHOULD",
        text="The body has a section on handling reviews.",
        tests=(
            "tests/protocol/test_skill.py::test_handling_tells_the_agent_to_forward_poll_and_stop",
            "tests/protocol/test_skill.py::test_a_document_is_front_matter_and_body",
        ),
    ),
)
