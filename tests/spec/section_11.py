"""Section 11: what a review page must be, whatever it is made with."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="11-any-technology",
        section="11",
        level="MAY",
        text="Pages are made with whatever the service likes.",
        tests=(
            "tests/pages/test_pages.py::test_a_folder_of_templates_comes_before_ours",
            "tests/pages/test_pages.py::test_the_markup_is_sound_and_nothing_is_inline",
        ),
    ),
    Requirement(
        id="11-json-render",
        section="11",
        level="RECOMMENDED",
        text="Describe pages in json-render.",
        divergence=(
            "Pages are plain HTML that works without script; a service may declare a surface of its "
            "own (11-surface-declared)."
        ),
    ),
    Requirement(
        id="11-surface-declared",
        section="11",
        level="SHOULD",
        text="A service that uses a UI format declares it in `surface`.",
        tests=(
            "tests/server/test_spec_pages.py::test_a_surface_is_declared_only_where_the_service_has_one",
            "tests/protocol/test_surface.py::test_a_declaration_names_format_and_version",
        ),
    ),
    Requirement(
        id="11-surface-optional",
        section="11",
        level="OPTIONAL",
        text="Without `surface` the link is a plain web page.",
        tests=("tests/server/test_spec_pages.py::test_a_surface_is_declared_only_where_the_service_has_one",),
    ),
    Requirement(
        id="11-responsive",
        section="11",
        level="MUST",
        text="Pages work on phones and desktops.",
        tests=(
            "tests/server/test_spec_pages.py::test_pages_adapt_to_the_width_of_the_screen",
            "tests/pages/test_foreign_pages.py::test_pages_of_other_scripts_are_as_accessible_and_as_narrow",
            "tests/pages/test_browser.py::test_actions_are_equal_in_size_and_stay_in_reach_on_a_phone",
        ),
    ),
    Requirement(
        id="11-no-authentication",
        section="11",
        level="MUST",
        text="Pages open by the link alone.",
        tests=("tests/server/test_spec_pages.py::test_the_link_alone_opens_the_page",),
    ),
    Requirement(
        id="11-result-schema",
        section="11",
        level="MUST",
        text="What the page sends has the structure of its type.",
        tests=(
            "tests/server/test_spec_pages.py::test_what_the_page_sends_has_the_shape_of_its_type",
            "tests/server/test_spec_pages.py::test_a_service_with_a_page_of_its_own_answers_in_json",
        ),
    ),
    Requirement(
        id="11-expired-page",
        section="11",
        level="MUST",
        text="After the deadline there is a message and no broken form.",
        tests=(
            "tests/server/test_spec_pages.py::test_after_the_deadline_the_page_says_so_and_offers_no_form",
            "tests/pages/test_pages.py::test_a_deadline_that_just_passed_is_told_before_the_clock_has_closed_the_case",
        ),
    ),
    Requirement(
        id="11-idempotent",
        section="11",
        level="SHOULD",
        text="A case that was answered shows its answer.",
        tests=(
            "tests/server/test_spec_pages.py::test_after_the_answer_the_page_shows_it_instead_of_a_fresh_form",
            "tests/server/test_spec_pages.py::test_the_same_form_sent_twice_is_one_answer_and_another_one_loses",
            "tests/pages/test_pages.py::test_a_closed_case_tells_what_was_answered_and_what_happens_next",
        ),
    ),
)
