"""Section 9: telling an agent that can be reached."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="9-requested",
        section="9",
        level="MAY",
        text="An agent that can be reached asks to be called.",
        tests=(
            "tests/server/test_spec_callbacks.py::test_an_answer_is_posted_to_the_address_that_was_asked_for",
        ),
    ),
    Requirement(
        id="9-completed",
        section="9",
        level="STATED",
        text="An answer is POSTed as `review.completed` with its result.",
        tests=(
            "tests/server/test_spec_callbacks.py::test_an_answer_is_posted_to_the_address_that_was_asked_for",
        ),
    ),
    Requirement(
        id="9-expired",
        section="9",
        level="STATED",
        text="Expiry is POSTed as `review.expired`.",
        tests=("tests/server/test_spec_callbacks.py::test_expiry_is_posted",),
    ),
    Requirement(
        id="9-cancelled",
        section="9",
        level="STATED",
        text="Withdrawal is POSTed as `review.cancelled`.",
        tests=("tests/server/test_spec_callbacks.py::test_withdrawal_is_posted",),
    ),
    Requirement(
        id="9-only-endings",
        section="9",
        level="STATED",
        text="Nothing else is POSTed.",
        tests=("tests/server/test_spec_callbacks.py::test_nothing_is_posted_before_the_end",),
    ),
    Requirement(
        id="9-signed",
        section="9",
        level="STATED",
        text="`X-HITL-Signature` is the HMAC-SHA256 of the body under a shared secret.",
        tests=(
            "tests/server/test_spec_callbacks.py::test_the_signature_is_the_hmac_of_the_body_under_the_shared_secret",
            "tests/server/test_spec_callbacks.py::test_a_receiver_with_the_standard_library_of_webhooks_can_verify_too",
            "tests/server/test_spec_callbacks.py::test_a_callback_that_was_tampered_with_does_not_verify",
            "tests/protocol/test_callback.py::test_plain_receiver_checks_the_body_with_the_secret_as_it_was_given",
        ),
    ),
    Requirement(
        id="9-agent-verify",
        section="9",
        level="SHOULD",
        text="Check the signature before believing a callback.",
        tests=(
            "tests/protocol/test_callback.py::test_changed_body_does_not_verify",
            "tests/protocol/test_callback.py::test_callback_without_any_signature_is_refused",
        ),
    ),
    Requirement(
        id="9-retry",
        section="9",
        level="SHOULD",
        text="Try again after 5xx or silence, with growing waits, up to three times.",
        tests=(
            "tests/server/test_spec_callbacks.py::test_a_receiver_in_trouble_is_tried_again_with_the_same_bytes_and_id",
            "tests/server/test_spec_callbacks.py::test_the_waits_between_attempts_grow",
            "tests/server/test_spec_callbacks.py::test_an_address_that_is_gone_gets_nothing_more_until_it_is_enabled",
            "tests/desk/test_delivery_retries.py::test_ten_attempts_span_three_days_and_then_it_is_over",
        ),
        divergence=(
            "Ten attempts over three days on the schedule of Standard Webhooks, after any failure; "
            "410 ends it (ruling 18)."
        ),
    ),
    Requirement(
        id="9-agent-fallback",
        section="9",
        level="SHOULD",
        text="Poll as well.",
        tests=(
            "tests/agent/test_callbacks.py::test_unverified_callbacks_cause_rate_limited_polls",
            "tests/agent/test_flow.py::test_callback_only_triggers_a_poll",
        ),
    ),
    Requirement(
        id="9-poll-is-truth",
        section="9",
        level="STATED",
        text="When callbacks fail for good, the poll still tells.",
        tests=(
            "tests/server/test_spec_callbacks.py::test_a_callback_that_cannot_be_delivered_leaves_the_poll_as_it_is",
        ),
    ),
)
