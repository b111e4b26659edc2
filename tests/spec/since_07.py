"""What 0.7 changed: loopback, the 403 body, surfaces and discovery."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="0.7-https-loopback",
        section="0.7",
        level="MAY",
        text="Use plain HTTP on localhost and 127.0.0.1.",
        tests=(
            "tests/server/test_spec_security.py::test_a_server_that_would_hand_out_plain_http_links_does_not_start",
            "tests/protocol/test_addresses.py::test_base_url_is_secure_or_loopback",
        ),
    ),
    Requirement(
        id="0.7-403-body",
        section="0.7",
        level="SHOULD",
        text="A 403 carries the case's id, and may carry a link without its token.",
        tests=(
            "tests/server/test_spec_inline.py::test_an_action_that_was_not_offered_inline_is_refused_with_the_way_to_the_page",
        ),
    ),
    Requirement(
        id="0.7-agent-original-link",
        section="0.7",
        level="SHOULD",
        text="After a 403, use the link from the 202.",
        tests=("tests/agent/test_duties.py::test_after_a_403_the_person_gets_the_original_review_link",),
    ),
    Requirement(
        id="0.7-schemas",
        section="0.7",
        level="STATED",
        text="Where text and schema files differ, the files hold.",
        tests=(
            "tests/protocol/test_wire.py::test_a_202_with_everything_in_it_has_exactly_the_fields_of_its_version",
            "tests/protocol/test_wire.py::test_a_poll_has_the_fields_of_its_version_and_state_only",
        ),
    ),
    Requirement(
        id="0.7-surface",
        section="0.7",
        level="STATED",
        text="`surface` only declares a format; it carries no payload.",
        tests=("tests/protocol/test_surface.py::test_a_malformed_declaration_is_refused_by_name",),
    ),
    Requirement(
        id="0.7-interop",
        section="0.7",
        level="OPTIONAL",
        text="Surfaces may be embedded in a wrapper of their own.",
        tests=("tests/protocol/test_surface.py::test_a_wrapper_reads_back_as_it_was_built",),
    ),
    Requirement(
        id="0.7-discovery",
        section="0.7",
        level="STATED",
        text="Discovery is one nested object.",
        tests=(
            "tests/server/test_spec_security.py::test_discovery_has_the_shape_of_the_version_asked_for",
            "tests/protocol/test_discovery.py::test_discovery_is_one_object_with_the_fields_of_its_version",
        ),
    ),
    Requirement(
        id="0.7-poll-by-state",
        section="0.7",
        level="REQUIRED",
        text="Each ending has its own time, and its own content.",
        tests=("tests/protocol/test_wire.py::test_a_poll_has_the_fields_of_its_version_and_state_only",),
    ),
)
