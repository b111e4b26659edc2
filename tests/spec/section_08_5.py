"""Section 8.5: server-sent events."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="8.5-offered",
        section="8.5",
        level="MAY",
        text="Offer an event stream.",
        tests=(
            "tests/server/test_spec_events.py::test_streams_are_offered_beside_polling",
            "tests/server/test_spec_events.py::test_streams_pass_proxies_unbuffered_and_are_stored_nowhere",
        ),
    ),
    Requirement(
        id="8.5-live",
        section="8.5",
        level="STATED",
        text="Events arrive as they happen.",
        tests=("tests/server/test_spec_events.py::test_an_open_stream_hears_of_it_at_once",),
    ),
    Requirement(
        id="8.5-opened",
        section="8.5",
        level="STATED",
        text="`review.opened` carries case and time.",
        tests=("tests/server/test_spec_events.py::test_a_form_filled_in_is_told_from_first_look_to_result",),
    ),
    Requirement(
        id="8.5-in-progress",
        section="8.5",
        level="STATED",
        text="`review.in_progress` carries case and time of opening.",
        tests=("tests/server/test_spec_events.py::test_a_form_filled_in_is_told_from_first_look_to_result",),
    ),
    Requirement(
        id="8.5-reminder",
        section="8.5",
        level="STATED",
        text="`review.reminder` carries case, moment and message, while nobody has begun.",
        tests=(
            "tests/server/test_spec_events.py::test_a_reminder_is_told_while_the_person_has_not_begun",
            "tests/server/test_spec_events.py::test_no_reminder_once_the_person_is_at_it",
        ),
    ),
    Requirement(
        id="8.5-completed",
        section="8.5",
        level="STATED",
        text="`review.completed` carries case, time and result.",
        tests=("tests/server/test_spec_events.py::test_a_form_filled_in_is_told_from_first_look_to_result",),
    ),
    Requirement(
        id="8.5-expired",
        section="8.5",
        level="STATED",
        text="`review.expired` carries case, time and default action.",
        tests=("tests/server/test_spec_events.py::test_expiry_is_told_with_the_default_action",),
    ),
    Requirement(
        id="8.5-cancelled",
        section="8.5",
        level="STATED",
        text="`review.cancelled` carries case, time and reason.",
        tests=("tests/server/test_spec_events.py::test_withdrawal_is_told_with_its_reason",),
    ),
    Requirement(
        id="8.5-id",
        section="8.5",
        level="SHOULD",
        text="Every event has an id to come back with.",
        tests=("tests/server/test_spec_events.py::test_every_event_has_an_id_and_ids_only_grow",),
    ),
    Requirement(
        id="8.5-replay",
        section="8.5",
        level="STATED",
        text="A client that reconnects gets the events that it missed.",
        tests=(
            "tests/server/test_spec_events.py::test_a_client_that_reconnects_gets_the_missed_events_and_no_others",
            "tests/server/test_spec_events.py::test_an_unknown_last_event_replays_everything",
        ),
    ),
    Requirement(
        id="8.5-closes",
        section="8.5",
        level="SHOULD",
        text="The stream ends after the last event.",
        tests=("tests/server/test_spec_events.py::test_the_stream_ends_after_the_last_event",),
    ),
    Requirement(
        id="8.5-poll-is-truth",
        section="8.5",
        level="OPTIONAL",
        text="The stream is an extra; the poll is what counts.",
        tests=("tests/server/test_spec_events.py::test_the_stream_and_the_poll_tell_the_same",),
    ),
    Requirement(
        id="8.5-agent-fallback",
        section="8.5",
        level="SHOULD",
        text="Poll when the stream fails.",
        tests=(
            "tests/agent/test_flow.py::test_unavailable_stream_falls_back_to_polls",
            "tests/agent/test_flow.py::test_stream_that_always_ends_at_once_falls_back_to_polls",
        ),
    ),
    Requirement(
        id="8.5-polling-too",
        section="8.5",
        level="MUST",
        text="A service that offers a stream offers polling as well.",
        tests=("tests/server/test_spec_events.py::test_streams_are_offered_beside_polling",),
    ),
    Requirement(
        id="8.5-agent-daemons",
        section="8.5",
        level="RECOMMENDED",
        text="Long-lived agents follow the stream.",
        tests=(
            "tests/agent/test_flow.py::test_while_a_stream_is_open_polls_are_few_and_an_event_brings_one_at_once",
            "tests/agent/test_flow.py::test_a_stream_is_resumed_where_it_ended",
        ),
    ),
)
