"""Section 6: the 202 response, and what its `hitl` object holds."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="6-accepted",
        section="6",
        level="MUST",
        text=("Answer 202 when a request is understood and a person must decide before there is a result."),
        tests=(
            "tests/server/test_spec_opening.py::test_a_question_that_needs_a_person_is_accepted_with_202",
        ),
    ),
    Requirement(
        id="6-not-for-others",
        section="6",
        level="MUST NOT",
        text="Answer 202 to what needs no person, is malformed, or failed on the server.",
        tests=(
            "tests/server/test_spec_opening.py::test_a_request_that_cannot_be_asked_is_refused_and_opens_nothing",
        ),
    ),
    Requirement(
        id="6-status-field",
        section="6",
        level="REQUIRED",
        text="`status` is `human_input_required`.",
        tests=(
            "tests/server/test_spec_opening.py::test_a_question_that_needs_a_person_is_accepted_with_202",
        ),
    ),
    Requirement(
        id="6-message-field",
        section="6",
        level="RECOMMENDED",
        text="`message` gives the agent a summary to relay.",
        tests=("tests/server/test_spec_opening.py::test_there_is_always_a_message_for_the_agent_to_relay",),
    ),
    Requirement(
        id="6-hitl-field",
        section="6",
        level="REQUIRED",
        text="`hitl` is there.",
        tests=(
            "tests/server/test_spec_opening.py::test_a_question_that_needs_a_person_is_accepted_with_202",
        ),
    ),
    Requirement(
        id="6-spec-version",
        section="6",
        level="REQUIRED",
        text="`spec_version` names the version that the object follows.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_version_asked_for_is_the_version_served",
            "tests/server/test_spec_opening.py::test_an_unknown_version_is_refused_by_name",
        ),
    ),
    Requirement(
        id="6-case-id",
        section="6",
        level="REQUIRED",
        text="`case_id` is unique and safe in a URL.",
        tests=("tests/server/test_spec_opening.py::test_case_ids_are_unique_and_safe_in_urls",),
    ),
    Requirement(
        id="6-case-id-form",
        section="6",
        level="RECOMMENDED",
        text="`case_id` is `review_` and something random.",
        tests=("tests/server/test_spec_opening.py::test_case_ids_are_unique_and_safe_in_urls",),
    ),
    Requirement(
        id="6-review-url",
        section="6",
        level="REQUIRED",
        text="`review_url` is the whole address of the page.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_review_link_is_absolute_and_carries_its_own_token",
        ),
    ),
    Requirement(
        id="6-review-url-token",
        section="6",
        level="MUST",
        text="`review_url` carries the token that opens the page.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_review_link_is_absolute_and_carries_its_own_token",
        ),
    ),
    Requirement(
        id="6-poll-url",
        section="6",
        level="REQUIRED",
        text="`poll_url` is the whole address to poll.",
        tests=("tests/server/test_spec_opening.py::test_the_poll_and_event_addresses_work_as_given",),
    ),
    Requirement(
        id="6-callback-url",
        section="6",
        level="OPTIONAL",
        text="`callback_url` echoes the address that was asked for, and is null without one.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_callback_address_is_echoed_and_null_without_one",
        ),
    ),
    Requirement(
        id="6-events-url",
        section="6",
        level="OPTIONAL",
        text="`events_url` leads to the event stream.",
        tests=("tests/server/test_spec_opening.py::test_the_poll_and_event_addresses_work_as_given",),
    ),
    Requirement(
        id="6-type",
        section="6",
        level="REQUIRED",
        text="`type` is one of the five standard types, or a custom one.",
        tests=(
            "tests/server/test_spec_opening.py::test_each_standard_type_can_be_asked",
            "tests/server/test_spec_opening.py::test_a_type_is_a_standard_one_or_an_x_type",
        ),
    ),
    Requirement(
        id="6-prompt",
        section="6",
        level="REQUIRED",
        text="`prompt` says in at most 500 characters what is to be decided.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_prompt_says_something_in_at_most_500_characters",
        ),
    ),
    Requirement(
        id="6-timeout",
        section="6",
        level="RECOMMENDED",
        text="`timeout` is an ISO 8601 duration or a shorthand; a day by default.",
        tests=(
            "tests/server/test_spec_opening.py::test_timeouts_are_read_in_both_notations",
            "tests/server/test_spec_opening.py::test_a_case_stays_open_for_a_day_unless_told_and_for_a_week_at_most",
        ),
    ),
    Requirement(
        id="6-default-action",
        section="6",
        level="OPTIONAL",
        text="`default_action` is skip, approve, reject or abort; skip by default.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_default_action_is_skip_unless_told",
            "tests/server/test_spec_opening.py::test_silence_approves_only_where_the_service_said_so_and_never_a_confirmation",
        ),
    ),
    Requirement(
        id="6-created-at",
        section="6",
        level="REQUIRED",
        text="`created_at` says when the case was opened.",
        tests=("tests/server/test_spec_opening.py::test_a_case_says_when_it_was_asked_and_until_when",),
    ),
    Requirement(
        id="6-expires-at",
        section="6",
        level="REQUIRED",
        text="`expires_at` says until when it can be answered.",
        tests=("tests/server/test_spec_opening.py::test_a_case_says_when_it_was_asked_and_until_when",),
    ),
    Requirement(
        id="6-context",
        section="6",
        level="OPTIONAL",
        text="`context` carries whatever the person should see; agents do not process it.",
        tests=("tests/server/test_spec_opening.py::test_the_context_travels_as_it_was_given",),
    ),
    Requirement(
        id="6-reminder-at",
        section="6",
        level="OPTIONAL",
        text="`reminder_at` holds one moment or several.",
        tests=(
            "tests/server/test_spec_opening.py::test_one_reminder_or_several_are_echoed",
            "tests/server/test_spec_opening.py::test_a_reminder_outside_the_life_of_the_case_is_refused",
        ),
    ),
    Requirement(
        id="6-reminder-resend",
        section="6",
        level="SHOULD",
        text="Send the link again when a reminder is due and nobody has begun.",
        tests=(
            "tests/agent/test_flow.py::test_reminder_is_due_without_polls_and_not_after_opening",
            "tests/agent/test_flow.py::test_reminder_is_sent_once_from_event_or_clock",
        ),
    ),
    Requirement(
        id="6-previous-case-id",
        section="6",
        level="OPTIONAL",
        text="`previous_case_id` links a case to the round before it.",
        tests=(
            "tests/server/test_spec_opening.py::test_a_follow_up_is_linked_in_both_directions",
            "tests/server/test_spec_opening.py::test_a_case_continues_only_one_of_its_owners_own",
        ),
    ),
    Requirement(
        id="6-agent-extract",
        section="6",
        level="MUST",
        text="Take `review_url` out of the 202.",
        tests=(
            "tests/agent/test_service_responses.py::test_every_version_is_read",
            "tests/agent/test_service_responses.py::test_missing_required_field_is_named",
        ),
    ),
    Requirement(
        id="6-agent-forward",
        section="6",
        level="MUST",
        text="Send `review_url` to the person, with the prompt or message.",
        tests=(
            "tests/agent/test_following.py::test_the_decision_of_a_person_comes_back_with_its_proof",
            "tests/agent/test_channel_bridge.py::test_press_becomes_the_decision_and_updates_the_card",
        ),
    ),
    Requirement(
        id="6-agent-poll",
        section="6",
        level="MUST",
        text="Poll `poll_url`, or rely on the callback.",
        tests=(
            "tests/agent/test_following.py::test_the_decision_of_a_person_comes_back_with_its_proof",
            "tests/agent/test_callbacks.py::test_a_callback_ends_the_wait_though_no_poll_is_near",
        ),
    ),
    Requirement(
        id="6-agent-not-render",
        section="6",
        level="MUST NOT",
        text="Draw the review page itself.",
        tests=("tests/agent/test_duties.py::test_agent_never_opens_the_review_page",),
    ),
    Requirement(
        id="6-agent-not-answer",
        section="6",
        level="MUST NOT",
        text="Answer for the person, unless a button was pressed for it (since 0.6).",
        tests=(
            "tests/agent/test_service_responses.py::test_completed_case_without_an_action_is_refused",
            "tests/agent/test_channel_bridge.py::test_a_stranger_cannot_answer_and_is_told_so",
        ),
    ),
    Requirement(
        id="6-agent-not-ignore",
        section="6",
        level="MUST NOT",
        text="Go on without the person's answer.",
        tests=(
            "tests/agent/test_flow.py::test_expired_case_has_the_default_action_and_no_decision",
            "tests/agent/test_flow.py::test_case_that_is_no_longer_accessible_is_lost",
        ),
    ),
    Requirement(
        id="6-agent-callback",
        section="6",
        level="MAY",
        text="Name a callback address in the original request.",
        not_ours="A field of the service's own API; the service passes it on as `callback_url`.",
    ),
    Requirement(
        id="6-honour-callback",
        section="6",
        level="SHOULD",
        text="Use a callback address that was given, and offer polling as well.",
        tests=(
            "tests/server/test_spec_callbacks.py::test_an_answer_is_posted_to_the_address_that_was_asked_for",
            "tests/server/test_spec_opening.py::test_the_callback_address_is_echoed_and_null_without_one",
        ),
    ),
)
