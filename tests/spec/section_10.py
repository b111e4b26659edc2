"""Section 10: the five types and custom ones, with their actions and results."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="10-types",
        section="10",
        level="STATED",
        text="There are five standard types.",
        tests=("tests/server/test_spec_opening.py::test_each_standard_type_can_be_asked",),
    ),
    Requirement(
        id="10-actions",
        section="10",
        level="STATED",
        text="Each type has its own actions.",
        tests=(
            "tests/server/test_spec_types.py::test_each_type_gives_back_its_own_result",
            "tests/server/test_spec_types.py::test_no_type_takes_the_action_of_another",
        ),
    ),
    Requirement(
        id="10.1-result",
        section="10",
        level="STATED",
        text="Approval gives back feedback and edits.",
        tests=("tests/server/test_spec_types.py::test_each_type_gives_back_its_own_result",),
    ),
    Requirement(
        id="10.1-rounds",
        section="10",
        level="STATED",
        text="An edit leads to a new case that is linked to this one.",
        tests=(
            "tests/server/test_spec_opening.py::test_a_follow_up_is_linked_in_both_directions",
            "tests/server/test_spec_types.py::test_an_edit_completes_its_round_and_the_next_one_continues_it",
            "tests/desk/test_rounds.py::test_four_rounds_are_listed_in_order_from_any_of_them",
        ),
    ),
    Requirement(
        id="10.2-result",
        section="10",
        level="STATED",
        text="Selection gives back the chosen ids and a note.",
        tests=(
            "tests/server/test_spec_types.py::test_each_type_gives_back_its_own_result",
            "tests/reviews/test_selection.py::test_any_number_of_options_may_be_picked_unless_said_otherwise",
        ),
    ),
    Requirement(
        id="10.3-result",
        section="10",
        level="STATED",
        text="Input gives back the answers by their keys.",
        tests=(
            "tests/server/test_spec_types.py::test_each_type_gives_back_its_own_result",
            "tests/reviews/test_input.py::test_answers_that_fit_are_kept",
        ),
    ),
    Requirement(
        id="10.4-result",
        section="10",
        level="STATED",
        text="Confirmation gives back what was confirmed and a note.",
        tests=(
            "tests/server/test_spec_types.py::test_each_type_gives_back_its_own_result",
            "tests/reviews/test_confirmation.py::test_a_bare_press_confirms_everything_by_name",
        ),
    ),
    Requirement(
        id="10.4-one-shot",
        section="10",
        level="STATED",
        text="Confirmation knows no edit and no second round.",
        tests=("tests/server/test_spec_types.py::test_no_type_takes_the_action_of_another",),
    ),
    Requirement(
        id="10.4-agent-no-retry",
        section="10",
        level="SHOULD NOT",
        text="Ask again for the same action after it was cancelled.",
        tests=("tests/agent/test_duties.py::test_rejected_request_is_not_repeated",),
    ),
    Requirement(
        id="10.5-result",
        section="10",
        level="STATED",
        text="Escalation gives back a reason and changed parameters.",
        tests=(
            "tests/server/test_spec_types.py::test_each_type_gives_back_its_own_result",
            "tests/reviews/test_escalation.py::test_a_retry_may_change_what_the_context_lists",
        ),
    ),
    Requirement(
        id="10.5-custom-action",
        section="10",
        level="STATED",
        text="Escalation offers retry, skip, abort and custom actions.",
        tests=(
            "tests/server/test_escalation_actions.py::test_a_custom_action_is_shown_taken_and_read_by_the_agent",
            "tests/server/test_escalation_actions.py::test_api_and_inline_submit_take_the_declared_actions_only",
        ),
    ),
    Requirement(
        id="10-custom",
        section="10",
        level="MAY",
        text="Services have types of their own.",
        tests=(
            "tests/server/test_spec_types.py::test_a_custom_type_declares_its_actions_and_takes_no_other",
        ),
    ),
    Requirement(
        id="10-custom-namespaced",
        section="10",
        level="MUST",
        text="Their names begin with `x-`.",
        tests=(
            "tests/server/test_spec_opening.py::test_a_type_is_a_standard_one_or_an_x_type",
            "tests/server/test_spec_types.py::test_a_custom_type_declares_its_actions_and_takes_no_other",
        ),
    ),
    Requirement(
        id="10-custom-agents",
        section="10",
        level="SHOULD",
        text="Treat an unknown type as input and forward the link.",
        tests=(
            "tests/agent/test_service_responses.py::test_buttons_are_offered_only_where_the_answer_can_be_submitted",
        ),
    ),
)
