"""Section 10.3: forms, their fields, steps, conditions and progress."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="10.3.1-declared",
        section="10.3",
        level="SHOULD",
        text="Forms are declared in `context.form`.",
        tests=("tests/server/test_spec_types.py::test_a_form_is_declared_in_the_context_and_drawn_from_it",),
    ),
    Requirement(
        id="10.3.1-custom-type",
        section="10.3",
        level="MAY",
        text="Fields have types of their own, beginning with `x-`.",
        tests=(
            "tests/server/test_spec_types.py::test_a_field_of_an_unknown_type_is_a_line_of_text",
            "tests/protocol/test_fields.py::test_any_other_type_is_custom",
        ),
    ),
    Requirement(
        id="10.3.1-fallback",
        section="10.3",
        level="SHOULD",
        text="An unknown field type is a line of text.",
        tests=("tests/server/test_spec_types.py::test_a_field_of_an_unknown_type_is_a_line_of_text",),
    ),
    Requirement(
        id="10.3.1-key",
        section="10.3",
        level="REQUIRED",
        text="A field has a key of its own.",
        tests=(
            "tests/server/test_spec_types.py::test_a_field_without_key_label_or_type_is_no_field",
            "tests/protocol/test_forms.py::test_a_key_is_used_once_across_all_steps",
        ),
    ),
    Requirement(
        id="10.3.1-label",
        section="10.3",
        level="REQUIRED",
        text="A field has a label.",
        tests=("tests/server/test_spec_types.py::test_a_field_without_key_label_or_type_is_no_field",),
    ),
    Requirement(
        id="10.3.1-type",
        section="10.3",
        level="REQUIRED",
        text="A field has a type.",
        tests=(
            "tests/server/test_spec_types.py::test_a_field_without_key_label_or_type_is_no_field",
            "tests/protocol/test_forms.py::test_every_type_is_understood",
        ),
    ),
    Requirement(
        id="10.3.1-required",
        section="10.3",
        level="OPTIONAL",
        text="`required` fields must be filled in; the default is no.",
        tests=(
            "tests/server/test_spec_types.py::test_a_required_field_must_be_filled_in_and_others_need_not",
            "tests/protocol/test_form_answers.py::test_a_required_field_takes_no_blank",
        ),
    ),
    Requirement(
        id="10.3.1-placeholder",
        section="10.3",
        level="OPTIONAL",
        text="`placeholder` stands in an empty field.",
        tests=("tests/server/test_spec_types.py::test_a_form_is_declared_in_the_context_and_drawn_from_it",),
    ),
    Requirement(
        id="10.3.1-hint",
        section="10.3",
        level="OPTIONAL",
        text="`hint` stands beside the field.",
        tests=("tests/server/test_spec_types.py::test_a_form_is_declared_in_the_context_and_drawn_from_it",),
    ),
    Requirement(
        id="10.3.1-default",
        section="10.3",
        level="OPTIONAL",
        text="`default` fills the field in.",
        tests=(
            "tests/server/test_spec_types.py::test_a_default_stands_in_the_field_until_something_else_is_typed",
            "tests/protocol/test_forms.py::test_defaults_fill_the_form_in",
        ),
    ),
    Requirement(
        id="10.3.1-default-not-sensitive",
        section="10.3",
        level="MUST NOT",
        text="Put sensitive data into `default`.",
        tests=("tests/protocol/test_forms.py::test_an_unsound_field_is_refused_with_its_place",),
    ),
    Requirement(
        id="10.3.1-default-ref",
        section="10.3",
        level="OPTIONAL",
        text="`default_ref` is fetched to fill the field in.",
        tests=(
            "tests/server/test_spec_pages.py::test_a_default_is_not_fetched_from_inside_the_network",
            "tests/server/test_prefill.py::test_a_field_starts_from_what_its_reference_holds",
            "tests/server/test_prefill.py::test_only_a_request_of_the_server_carries_a_token_for_this_address",
            "tests/server/test_prefill.py::test_an_address_that_the_guard_refuses_is_refused_at_once",
        ),
        divergence=(
            "Fetched by the server through the address guard, with a signed token for this address that "
            "lasts a minute, instead of the review token: the agent knows that one, and it must not leave "
            "for an address that the case names (ruling 19)."
        ),
    ),
    Requirement(
        id="10.3.1-sensitive",
        section="10.3",
        level="SHOULD",
        text="A sensitive field is masked.",
        tests=(
            "tests/server/test_spec_types.py::test_a_sensitive_field_is_masked_and_its_saved_value_never_comes_back",
            "tests/pages/test_pages.py::test_saved_secrets_are_not_sent_back",
        ),
    ),
    Requirement(
        id="10.3.1-sensitive-log",
        section="10.3",
        level="MUST NOT",
        text="Log a sensitive value.",
        tests=(
            "tests/server/test_spec_security.py::test_what_is_logged_carries_no_token_and_no_answer",
            "tests/protocol/test_form_answers.py::test_sensitive_answers_stay_out_of_messages_and_logs",
        ),
    ),
    Requirement(
        id="10.3.1-options",
        section="10.3",
        level="REQUIRED",
        text="Choices have options.",
        tests=(
            "tests/server/test_spec_types.py::test_an_answer_outside_its_rules_is_refused_by_the_server",
            "tests/protocol/test_forms.py::test_an_unsound_field_is_refused_with_its_place",
        ),
    ),
    Requirement(
        id="10.3.1-validation",
        section="10.3",
        level="OPTIONAL",
        text="`validation` bounds an answer: length, pattern, smallest and largest.",
        tests=(
            "tests/server/test_spec_types.py::test_an_answer_outside_its_rules_is_refused_by_the_server",
            "tests/protocol/test_field_values.py::test_bounds_are_kept",
        ),
    ),
    Requirement(
        id="10.3.1-conditional",
        section="10.3",
        level="OPTIONAL",
        text="`conditional` decides whether a field is shown.",
        tests=("tests/protocol/test_conditions.py::test_a_condition_is_met_by_the_answer",),
    ),
    Requirement(
        id="10.3.1-no-prefilled-secrets",
        section="10.3",
        level="SHOULD NOT",
        text="Send sensitive data along to fill fields in.",
        tests=("tests/protocol/test_forms.py::test_an_unsound_field_is_refused_with_its_place",),
    ),
    Requirement(
        id="10.3.2-steps",
        section="10.3",
        level="MAY",
        text="Fields are grouped into steps.",
        tests=(
            "tests/server/test_spec_types.py::test_a_form_in_steps_is_filled_in_piece_by_piece_and_can_be_taken_up_again",
            "tests/reviews/test_input.py::test_a_wizard_goes_forward_back_and_to_the_answer",
        ),
    ),
    Requirement(
        id="10.3.2-title",
        section="10.3",
        level="REQUIRED",
        text="A step has a title.",
        tests=("tests/server/test_spec_types.py::test_a_form_that_is_neither_fields_nor_steps_is_refused",),
    ),
    Requirement(
        id="10.3.2-description",
        section="10.3",
        level="OPTIONAL",
        text="A step has a description.",
        tests=(
            "tests/server/test_spec_types.py::test_a_form_in_steps_is_filled_in_piece_by_piece_and_can_be_taken_up_again",
        ),
    ),
    Requirement(
        id="10.3.2-fields",
        section="10.3",
        level="REQUIRED",
        text="A step lists its fields; none for a summary.",
        tests=("tests/server/test_spec_types.py::test_a_form_that_is_neither_fields_nor_steps_is_refused",),
    ),
    Requirement(
        id="10.3.2-session",
        section="10.3",
        level="MAY",
        text="`session_id` lets a form be taken up again later.",
        tests=(
            "tests/server/test_spec_types.py::test_a_form_in_steps_is_filled_in_piece_by_piece_and_can_be_taken_up_again",
        ),
    ),
    Requirement(
        id="10.3.2-service-owned",
        section="10.3",
        level="RECOMMENDED",
        text="The service keeps what was filled in so far.",
        tests=(
            "tests/server/test_spec_types.py::test_a_form_in_steps_is_filled_in_piece_by_piece_and_can_be_taken_up_again",
        ),
    ),
    Requirement(
        id="10.3.2-either",
        section="10.3",
        level="MUST NOT",
        text="Have fields beside steps.",
        tests=(
            "tests/server/test_spec_types.py::test_a_form_that_is_neither_fields_nor_steps_is_refused",
            "tests/protocol/test_forms.py::test_a_misshapen_form_is_refused_with_its_place",
        ),
    ),
    Requirement(
        id="10.3.3-conditional",
        section="10.3",
        level="MAY",
        text="A field depends on the answer to another.",
        tests=(
            "tests/server/test_spec_types.py::test_a_field_whose_condition_is_not_met_is_dropped_from_the_answer",
        ),
    ),
    Requirement(
        id="10.3.3-hidden",
        section="10.3",
        level="SHOULD",
        text="A field whose condition is not met is hidden, and its answer dropped.",
        tests=(
            "tests/server/test_spec_types.py::test_a_field_whose_condition_is_not_met_is_dropped_from_the_answer",
            "tests/protocol/test_form_answers.py::test_hidden_answers_are_dropped",
        ),
    ),
    Requirement(
        id="10.3.3-earlier",
        section="10.3",
        level="MAY",
        text="The other field stands earlier, in this step or one before.",
        tests=(
            "tests/server/test_spec_types.py::test_a_field_whose_condition_is_not_met_is_dropped_from_the_answer",
            "tests/server/test_spec_types.py::test_a_condition_on_a_later_field_is_refused",
            "tests/protocol/test_forms.py::test_a_condition_refers_to_an_earlier_field_and_fits_it",
        ),
    ),
    Requirement(
        id="10.3.4-progress",
        section="10.3",
        level="MAY",
        text="The poll tells how far the person has come.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_form_being_filled_in_is_in_progress_and_says_how_far",
            "tests/server/test_spec_types.py::test_a_sensitive_field_is_masked_and_its_saved_value_never_comes_back",
            "tests/protocol/test_form_progress.py::test_progress_carries_numbers_only",
        ),
    ),
    Requirement(
        id="10.3.4-progress-optional",
        section="10.3",
        level="OPTIONAL",
        text="`in_progress` may come without progress.",
        tests=(
            "tests/server/test_spec_types.py::test_work_on_a_case_without_steps_has_no_progress_to_report",
        ),
    ),
    Requirement(
        id="10.3.4-progress-event",
        section="10.3",
        level="MAY",
        text="The stream tells it too.",
        tests=("tests/server/test_spec_events.py::test_a_form_filled_in_is_told_from_first_look_to_result",),
    ),
    Requirement(
        id="10.3.4-agents",
        section="10.3",
        level="MUST",
        text="Work with and without progress.",
        tests=(
            "tests/agent/test_flow.py::test_each_state_change_is_reported_once",
            "tests/agent/test_flow.py::test_first_step_polls_and_a_result_ends_the_flow",
        ),
    ),
)
