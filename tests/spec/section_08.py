"""Section 8: the state of a case, for its principal."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="8-poll-auth",
        section="8",
        level="SHOULD",
        text="Polling takes the credential of the original request.",
        tests=(
            "tests/server/test_spec_poll.py::test_only_the_owner_may_poll",
            "tests/server/test_spec_poll.py::test_the_key_that_opened_the_case_polls_it",
        ),
    ),
    Requirement(
        id="8-in-progress",
        section="8",
        level="MAY",
        text="Tell that the person is at work.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_form_being_filled_in_is_in_progress_and_says_how_far",
            "tests/server/test_spec_types.py::test_work_on_a_case_without_steps_has_no_progress_to_report",
        ),
    ),
    Requirement(
        id="8-intermediate-optional",
        section="8",
        level="OPTIONAL",
        text="`opened` and `in_progress` need not occur.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_page_before_a_person_makes_it_opened",
            "tests/cases/test_machine.py::test_an_order_in_time_does_what_is_expected",
        ),
    ),
    Requirement(
        id="8-skip-intermediate",
        section="8",
        level="MAY",
        text="Go straight from `pending` to the end.",
        tests=("tests/server/test_spec_poll.py::test_an_answer_may_come_before_the_page_was_ever_seen",),
    ),
    Requirement(
        id="8-opened-by-person",
        section="8",
        level="STATED",
        text="`opened` means that the person opened the link.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_link_preview_opens_nothing",
            "tests/pages/test_browser.py::test_the_page_tells_once_that_a_person_has_it_open",
        ),
        divergence=(
            "A fetch opens nothing, since previews and scanners fetch every link: the page's own "
            "script says it, or the first form that is posted (ruling 4)."
        ),
    ),
    Requirement(
        id="8-terminal",
        section="8",
        level="MUST NOT",
        text="Leave a terminal state.",
        tests=(
            "tests/server/test_spec_poll.py::test_nothing_moves_a_case_that_has_ended",
            "tests/cases/test_machine.py::test_no_orders_at_any_time_break_a_case",
        ),
    ),
    Requirement(
        id="8-status-field",
        section="8",
        level="REQUIRED",
        text="`status` is one of the six states.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_new_case_is_pending",
            "tests/server/test_spec_poll.py::test_the_six_states_have_the_specs_names",
        ),
    ),
    Requirement(
        id="8-case-id-field",
        section="8",
        level="REQUIRED",
        text="`case_id` names the case.",
        tests=("tests/server/test_spec_poll.py::test_a_new_case_is_pending",),
    ),
    Requirement(
        id="8-created-at-field",
        section="8",
        level="REQUIRED",
        text="`created_at` is always there.",
        tests=("tests/server/test_spec_poll.py::test_a_new_case_is_pending",),
    ),
    Requirement(
        id="8-opened-at-field",
        section="8",
        level="REQUIRED",
        text="`opened_at` once the page was opened.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_page_before_a_person_makes_it_opened",
            "tests/server/test_spec_poll.py::test_a_form_being_filled_in_is_in_progress_and_says_how_far",
        ),
    ),
    Requirement(
        id="8-expires-at-field",
        section="8",
        level="REQUIRED",
        text="`expires_at` while it can be answered.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_new_case_is_pending",
            "tests/server/test_spec_poll.py::test_a_page_before_a_person_makes_it_opened",
        ),
    ),
    Requirement(
        id="8-completed-at-field",
        section="8",
        level="REQUIRED",
        text="`completed_at` once it was answered.",
        tests=(
            "tests/server/test_spec_poll.py::test_an_answer_completes_it_with_the_result",
            "tests/server/test_spec_poll.py::test_an_answer_may_come_before_the_page_was_ever_seen",
        ),
    ),
    Requirement(
        id="8-expired-at-field",
        section="8",
        level="REQUIRED",
        text="`expired_at` once time ran out.",
        tests=(
            "tests/server/test_spec_poll.py::test_time_running_out_reports_the_default_and_makes_up_no_result",
        ),
    ),
    Requirement(
        id="8-cancelled-at-field",
        section="8",
        level="REQUIRED",
        text="`cancelled_at` once it was withdrawn.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_withdrawn_case_says_when_and_why",
            "tests/server/test_spec_poll.py::test_a_person_may_say_that_they_will_not_decide",
        ),
    ),
    Requirement(
        id="8-result-field",
        section="8",
        level="REQUIRED",
        text="`result` once it was answered.",
        tests=("tests/server/test_spec_poll.py::test_an_answer_completes_it_with_the_result",),
    ),
    Requirement(
        id="8-result-action-field",
        section="8",
        level="REQUIRED",
        text="`result.action` is what was chosen.",
        tests=("tests/server/test_spec_poll.py::test_an_answer_completes_it_with_the_result",),
    ),
    Requirement(
        id="8-result-data-field",
        section="8",
        level="REQUIRED",
        text="`result.data` is what came with it.",
        tests=("tests/server/test_spec_poll.py::test_an_answer_completes_it_with_the_result",),
    ),
    Requirement(
        id="8-responded-by",
        section="8",
        level="OPTIONAL",
        text="`responded_by` tells who answered, where that was verified.",
        tests=(
            "tests/server/test_spec_poll.py::test_nobody_is_named_as_respondent_whom_the_server_did_not_verify",
            "tests/protocol/test_wire.py::test_a_poll_has_the_fields_of_its_version_and_state_only",
        ),
    ),
    Requirement(
        id="8-reminder-sent-at",
        section="8",
        level="OPTIONAL",
        text="`reminder_sent_at` tells when the last reminder went out.",
        tests=("tests/notify/test_whole_way.py::test_a_reminder_shows_in_the_poll_once_it_went_out",),
    ),
    Requirement(
        id="8-next-case-id",
        section="8",
        level="OPTIONAL",
        text="`next_case_id` leads to the follow-up.",
        tests=("tests/server/test_spec_opening.py::test_a_follow_up_is_linked_in_both_directions",),
    ),
    Requirement(
        id="8-default-action-field",
        section="8",
        level="REQUIRED",
        text="`default_action` once time ran out.",
        tests=(
            "tests/server/test_spec_poll.py::test_time_running_out_reports_the_default_and_makes_up_no_result",
        ),
    ),
    Requirement(
        id="8-reason-field",
        section="8",
        level="OPTIONAL",
        text="`reason` says why it was withdrawn.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_withdrawn_case_says_when_and_why",
            "tests/server/test_spec_poll.py::test_a_person_may_say_that_they_will_not_decide",
        ),
    ),
    Requirement(
        id="8-agent-interval",
        section="8",
        level="SHOULD",
        text="Poll every 30 seconds to 5 minutes.",
        tests=(
            "tests/agent/test_flow.py::test_retry_after_sets_the_interval_within_limits",
            "tests/agent/test_flow.py::test_without_retry_after_waits_grow_to_half_a_minute",
        ),
    ),
    Requirement(
        id="8-agent-heartbeat",
        section="8",
        level="SHOULD",
        text="Poll as part of a regular cycle, where there is one.",
        tests=("tests/agent/test_duties.py::test_resumed_agent_polls_once_per_run",),
    ),
    Requirement(
        id="8-retry-after",
        section="8",
        level="MAY",
        text="`Retry-After` suggests when to poll next.",
        tests=(
            "tests/server/test_spec_poll.py::test_a_live_case_says_when_to_ask_again_and_a_closed_one_does_not",
            "tests/server/test_spec_poll.py::test_retry_after_never_exceeds_the_deadline",
        ),
    ),
    Requirement(
        id="8-etag",
        section="8",
        level="SHOULD",
        text="`ETag` and `If-None-Match` make polling cheap.",
        tests=(
            "tests/server/test_spec_poll.py::test_an_unchanged_case_is_304_however_the_tag_is_sent",
            "tests/server/test_spec_poll.py::test_a_change_changes_the_tag",
        ),
    ),
)
