"""Section 13: tokens, one answer, integrity, limits, forgetting and delegation."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="13.1-token-in-url",
        section="13",
        level="MUST",
        text="The link carries a random, opaque token.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_review_link_is_absolute_and_carries_its_own_token",
        ),
    ),
    Requirement(
        id="13.1-only-digest",
        section="13",
        level="MUST",
        text="Only the SHA-256 of a token is kept.",
        tests=("tests/server/test_spec_security.py::test_only_digests_of_tokens_and_keys_reach_the_disk",),
    ),
    Requirement(
        id="13.1-verified",
        section="13",
        level="MUST",
        text="Tokens are compared in constant time at every request.",
        tests=(
            "tests/server/test_spec_pages.py::test_a_wrong_token_opens_nothing",
            "tests/cases/test_tokens.py::test_a_token_opens_its_own_digest_and_no_other",
        ),
    ),
    Requirement(
        id="13.1-expiry-tracked",
        section="13",
        level="MUST",
        text="The deadline is in the database, not in the token.",
        tests=(
            "tests/server/test_spec_security.py::test_the_deadline_is_kept_in_the_database_and_survives_a_restart",
        ),
    ),
    Requirement(
        id="13.1-short-lived",
        section="13",
        level="SHOULD",
        text="Tokens live for a day by default and a week at most.",
        tests=(
            "tests/server/test_spec_opening.py::test_timeouts_are_read_in_both_notations",
            "tests/server/test_spec_opening.py::test_a_case_stays_open_for_a_day_unless_told_and_for_a_week_at_most",
        ),
    ),
    Requirement(
        id="13.2-first-completes",
        section="13",
        level="STATED",
        text="The first answer completes the case.",
        tests=(
            "tests/server/test_spec_inline.py::test_the_second_answer_loses_and_says_so",
            "tests/server/test_spec_security.py::test_of_many_answers_at_once_exactly_one_wins",
        ),
    ),
    Requirement(
        id="13.2-conflict",
        section="13",
        level="MUST",
        text="Every later answer is 409.",
        tests=(
            "tests/server/test_spec_inline.py::test_the_second_answer_loses_and_says_so",
            "tests/server/test_spec_pages.py::test_the_same_form_sent_twice_is_one_answer_and_another_one_loses",
            "tests/server/test_spec_poll.py::test_nothing_moves_a_case_that_has_ended",
            "tests/server/test_spec_security.py::test_of_many_answers_at_once_exactly_one_wins",
            "tests/desk/test_answering.py::test_second_answer_is_refused",
        ),
    ),
    Requirement(
        id="13.2-grace",
        section="13",
        level="MAY",
        text="Let an answer be edited for five minutes.",
        tests=("tests/server/test_spec_security.py::test_an_answer_cannot_be_edited_however_soon",),
        divergence="No grace period (ruling 3); see 7-grace.",
    ),
    Requirement(
        id="13.3-https",
        section="13",
        level="MUST",
        text="All addresses use HTTPS; loopback aside, since 0.7.",
        tests=(
            "tests/server/test_spec_security.py::test_a_server_that_would_hand_out_plain_http_links_does_not_start",
            "tests/server/test_spec_security.py::test_every_address_handed_out_is_under_the_public_one",
            "tests/protocol/test_addresses.py::test_base_url_is_secure_or_loopback",
        ),
    ),
    Requirement(
        id="13.3-no-http",
        section="13",
        level="MUST NOT",
        text="Accept plain HTTP.",
        tests=(
            "tests/server/test_spec_security.py::test_a_server_that_would_hand_out_plain_http_links_does_not_start",
        ),
        divergence=(
            "TLS ends at the operator's proxy: the server refuses to start with a public address that "
            "is not https, loopback aside (ruling 12)."
        ),
    ),
    Requirement(
        id="13.4-signed",
        section="13",
        level="MAY",
        text="Results are signed.",
        tests=(
            "tests/server/test_spec_security.py::test_a_result_can_be_verified_by_anyone_with_the_published_keys",
            "tests/server/test_spec_security.py::test_signing_can_be_left_out",
        ),
    ),
    Requirement(
        id="13.4-verifiable",
        section="13",
        level="RECOMMENDED",
        text="Anyone can verify a result with the published keys.",
        tests=(
            "tests/server/test_spec_security.py::test_a_result_can_be_verified_by_anyone_with_the_published_keys",
            "tests/signing/test_verify_result.py::test_a_signed_result_verifies_and_says_what_it_proves",
        ),
    ),
    Requirement(
        id="13.5-rate-limit",
        section="13",
        level="SHOULD",
        text="Polling is limited, to 60 a minute for a case.",
        tests=(
            "tests/server/test_spec_poll.py::test_polls_are_limited_for_each_case_and_the_wait_is_named",
            "tests/server/test_spec_poll.py::test_an_unchanged_case_costs_no_poll",
            "tests/server/test_spec_poll.py::test_sixty_polls_a_minute_are_allowed_unless_set",
        ),
        divergence=(
            "For each principal and case, not for each case alone; an unchanged or closed case costs "
            "nothing (ruling 16)."
        ),
    ),
    Requirement(
        id="13.5-too-many",
        section="13",
        level="SHOULD",
        text="Beyond it, 429 with `Retry-After`.",
        tests=("tests/server/test_spec_poll.py::test_polls_are_limited_for_each_case_and_the_wait_is_named",),
    ),
    Requirement(
        id="13.6-only-needed",
        section="13",
        level="SHOULD",
        text="The page shows only what the decision needs.",
        tests=(
            "tests/server/test_spec_security.py::test_the_page_shows_no_ids_tokens_or_callback_addresses",
            "tests/pages/test_pages.py::test_who_asks_what_and_until_when_come_first",
        ),
    ),
    Requirement(
        id="13.6-no-pii",
        section="13",
        level="SHOULD NOT",
        text="Put sensitive personal data into `context`.",
        not_ours="The service's choice of content.",
    ),
    Requirement(
        id="13.6-retention",
        section="13",
        level="SHOULD",
        text="Cases are erased some time after their end; 30 days.",
        tests=(
            "tests/server/test_spec_security.py::test_thirty_days_after_its_end_a_case_is_forgotten_and_its_chain_still_holds",
            "tests/desk/test_sweep.py::test_after_its_retention_a_case_is_gone_and_its_chain_still_holds",
        ),
    ),
    Requirement(
        id="13.7-bearer",
        section="13",
        level="STATED",
        text="The link is a bearer credential and may be passed on.",
        tests=("tests/server/test_spec_pages.py::test_a_person_with_the_link_can_answer_on_any_device",),
    ),
    Requirement(
        id="13.7-stricter",
        section="13",
        level="MAY",
        text="Ask for more: an email, an address range, a second factor.",
        tests=(
            "tests/server/test_page_proofs.py::test_a_code_by_email_proves_an_answer",
            "tests/server/test_page_proofs.py::test_an_answer_counts_only_from_the_right_network",
            "tests/server/test_page_proofs.py::test_a_passkey_proves_one_answer_of_one_case",
        ),
    ),
    Requirement(
        id="13.7-who-responded",
        section="13",
        level="SHOULD",
        text="Keep who answered, not only that someone did.",
        tests=(
            "tests/server/test_spec_pages.py::test_passing_on_makes_a_link_of_its_own_and_the_log_knows_who_answered",
            "tests/server/test_spec_security.py::test_the_log_says_who_did_what_in_a_chain_that_cannot_be_rewritten",
        ),
    ),
    Requirement(
        id="13.7-collect",
        section="13",
        level="MAY",
        text="Ask the respondent who they are.",
        tests=("tests/server/test_page_proofs.py::test_a_code_by_email_proves_an_answer",),
    ),
    Requirement(
        id="13.7-only-what-is-needed",
        section="13",
        level="SHOULD",
        text="Collect no more about the respondent than needed.",
        tests=(
            "tests/server/test_spec_poll.py::test_nobody_is_named_as_respondent_whom_the_server_did_not_verify",
        ),
    ),
)
