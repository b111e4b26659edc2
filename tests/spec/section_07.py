"""Section 7: the review link, its token, and how it ages."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="7-generation",
        section="7",
        level="MUST",
        text="A token is 32 random bytes as 43 base64url characters.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_review_link_is_absolute_and_carries_its_own_token",
            "tests/cases/test_tokens.py::test_minted_tokens_are_long_different_and_url_safe",
        ),
    ),
    Requirement(
        id="7-storage",
        section="7",
        level="MUST NOT",
        text="Keep a raw token anywhere; only its SHA-256.",
        tests=(
            "tests/server/test_spec_security.py::test_only_digests_of_tokens_and_keys_reach_the_disk",
            "tests/cases/test_tokens.py::test_only_the_sha256_of_a_token_is_kept",
        ),
    ),
    Requirement(
        id="7-verified",
        section="7",
        level="MUST",
        text="Compare digests in constant time at every request.",
        tests=(
            "tests/server/test_spec_pages.py::test_a_wrong_token_opens_nothing",
            "tests/server/test_spec_pages.py::test_without_a_token_or_a_session_there_is_no_page",
            "tests/cases/test_tokens.py::test_a_token_opens_its_own_digest_and_no_other",
        ),
    ),
    Requirement(
        id="7-no-login",
        section="7",
        level="STATED",
        text="The token in the link is all the authentication there is.",
        tests=("tests/server/test_spec_pages.py::test_the_link_alone_opens_the_page",),
    ),
    Requirement(
        id="7-expired-page",
        section="7",
        level="MUST",
        text="After the deadline the page says that it has passed.",
        tests=(
            "tests/server/test_spec_pages.py::test_after_the_deadline_the_page_says_so_and_offers_no_form",
        ),
    ),
    Requirement(
        id="7-answered-page",
        section="7",
        level="SHOULD",
        text="After the answer the page shows what was answered.",
        tests=(
            "tests/server/test_spec_pages.py::test_after_the_answer_the_page_shows_it_instead_of_a_fresh_form",
        ),
    ),
    Requirement(
        id="7-grace",
        section="7",
        level="MAY",
        text="Let an answer be edited for a while.",
        tests=("tests/server/test_spec_security.py::test_an_answer_cannot_be_edited_however_soon",),
        divergence=(
            "No grace period: the first answer stands, and a correction is a new case with "
            "`previous_case_id` (ruling 3; 0.9 deletes the period too)."
        ),
    ),
    Requirement(
        id="7-delegation",
        section="7",
        level="STATED",
        text="A person who is given the link can answer.",
        tests=(
            "tests/server/test_spec_pages.py::test_a_person_with_the_link_can_answer_on_any_device",
            "tests/server/test_spec_pages.py::test_passing_on_makes_a_link_of_its_own_and_the_log_knows_who_answered",
        ),
    ),
    Requirement(
        id="7-https",
        section="7",
        level="MUST",
        text="Review links use HTTPS.",
        tests=(
            "tests/server/test_spec_security.py::test_a_server_that_would_hand_out_plain_http_links_does_not_start",
        ),
    ),
    Requirement(
        id="7-no-http",
        section="7",
        level="MUST NOT",
        text="Hand out review links over plain HTTP; loopback aside, since 0.7.",
        tests=(
            "tests/server/test_spec_security.py::test_a_server_that_would_hand_out_plain_http_links_does_not_start",
        ),
    ),
    Requirement(
        id="7-delivery-mode",
        section="7",
        level="SHOULD",
        text="Bring the link to the person in a way that fits where the agent runs.",
        tests=(
            "tests/cli/test_request.py::test_the_link_opens_in_the_browser_and_standard_output_stays_clean",
            "tests/cli/test_terminal.py::test_a_qr_code_is_drawn_where_it_fits",
            "tests/cli/test_messengers.py::test_a_press_in_telegram_ends_the_command_and_the_message_says_so",
            "tests/mcp/test_asking.py::test_the_person_is_shown_the_link_and_their_decision_comes_back",
        ),
    ),
)
