"""Section 7.5, added in 0.6: an answer that an agent relays after a button was pressed."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="7.5-offer",
        section="7.5",
        level="OPTIONAL",
        text="`submit_url` offers answering without the page.",
        tests=(
            "tests/server/test_spec_inline.py::test_inline_submit_is_offered_only_where_the_service_asks_for_it",
        ),
    ),
    Requirement(
        id="7.5-https",
        section="7.5",
        level="MUST",
        text="`submit_url` uses HTTPS; loopback aside, since 0.7.",
        tests=("tests/server/test_spec_security.py::test_every_address_handed_out_is_under_the_public_one",),
    ),
    Requirement(
        id="7.5-token-with-url",
        section="7.5",
        level="MUST",
        text="`submit_token` comes with every `submit_url`.",
        tests=(
            "tests/server/test_spec_inline.py::test_inline_submit_is_offered_only_where_the_service_asks_for_it",
        ),
    ),
    Requirement(
        id="7.5-token-differs",
        section="7.5",
        level="MUST",
        text="The submit token differs from the review token.",
        tests=("tests/server/test_spec_inline.py::test_the_submit_token_is_its_own_43_characters",),
    ),
    Requirement(
        id="7.5-token-form",
        section="7.5",
        level="MUST",
        text="The submit token has 43 base64url characters, and only its SHA-256 is kept.",
        tests=(
            "tests/server/test_spec_inline.py::test_the_submit_token_is_its_own_43_characters",
            "tests/server/test_spec_security.py::test_only_digests_of_tokens_and_keys_reach_the_disk",
        ),
    ),
    Requirement(
        id="7.5-inline-actions",
        section="7.5",
        level="OPTIONAL",
        text="`inline_actions` names what may be answered inline; anything else is 403.",
        tests=(
            "tests/server/test_spec_inline.py::test_inline_submit_is_offered_only_where_the_service_asks_for_it",
            "tests/server/test_spec_inline.py::test_an_action_that_was_not_offered_inline_is_refused_with_the_way_to_the_page",
            "tests/server/test_spec_inline.py::test_an_empty_list_of_inline_actions_means_none",
            "tests/server/test_spec_inline.py::test_what_a_button_cannot_say_cannot_be_offered_inline",
        ),
    ),
    Requirement(
        id="7.5-inline-omitted",
        section="7.5",
        level="STATED",
        text="Without `inline_actions` every action may be taken inline.",
        tests=(
            "tests/protocol/test_wire.py::test_inline_actions_without_an_address_to_submit_to_do_not_travel",
        ),
        divergence="We always list them beside a `submit_url`; an empty list means none (ruling 8).",
    ),
    Requirement(
        id="7.5-since-0.6",
        section="7.5",
        level="STATED",
        text="0.5 does not know inline submit.",
        tests=(
            "tests/server/test_spec_inline.py::test_version_0_5_knows_no_inline_submit",
            "tests/protocol/test_versions.py::test_an_offer_is_not_weakened_silently_to_fit_its_version",
        ),
    ),
    Requirement(
        id="7.5-endpoint",
        section="7.5",
        level="STATED",
        text="POST to `submit_url` under the submit token answers the case.",
        tests=("tests/server/test_spec_inline.py::test_a_press_completes_the_case",),
    ),
    Requirement(
        id="7.5-body",
        section="7.5",
        level="REQUIRED",
        text=(
            "The body names action, `submitted_via` and `submitted_by` with platform and user; data "
            "and display name are optional."
        ),
        tests=(
            "tests/server/test_spec_inline.py::test_a_body_of_another_shape_is_refused_and_answers_nothing",
            "tests/server/test_spec_inline.py::test_every_platform_can_be_named",
            "tests/protocol/test_inline_submit.py::test_a_body_that_says_too_little_or_too_much_is_refused",
        ),
    ),
    Requirement(
        id="7.5-200",
        section="7.5",
        level="STATED",
        text="Success is 200 with status, case and time.",
        tests=("tests/server/test_spec_inline.py::test_a_press_completes_the_case",),
    ),
    Requirement(
        id="7.5-401",
        section="7.5",
        level="STATED",
        text="A wrong token is 401 `invalid_token`.",
        tests=("tests/server/test_spec_inline.py::test_no_other_credential_answers_a_case",),
    ),
    Requirement(
        id="7.5-403",
        section="7.5",
        level="STATED",
        text="An action that is not inline is 403 `action_not_inline`.",
        tests=(
            "tests/server/test_spec_inline.py::test_an_action_that_was_not_offered_inline_is_refused_with_the_way_to_the_page",
            "tests/server/test_spec_verification.py::test_required_evidence_that_is_missing_sends_the_person_to_the_page",
        ),
    ),
    Requirement(
        id="7.5-409",
        section="7.5",
        level="STATED",
        text="A second answer is 409 `duplicate_submission`.",
        tests=("tests/server/test_spec_inline.py::test_the_second_answer_loses_and_says_so",),
    ),
    Requirement(
        id="7.5-410",
        section="7.5",
        level="STATED",
        text="A late answer is 410 `case_expired`.",
        tests=(
            "tests/server/test_spec_inline.py::test_an_answer_after_the_deadline_is_late_even_if_no_timer_has_run",
        ),
    ),
    Requirement(
        id="7.5-429",
        section="7.5",
        level="STATED",
        text="Too many submissions are 429 `rate_limited`.",
        divergence=(
            "Submissions are not limited: only the first answer counts, and a token cannot be "
            "guessed. Polls are (13.5)."
        ),
    ),
    Requirement(
        id="7.5-no-crossing",
        section="7.5",
        level="MUST NOT",
        text="Take a submit token where a review token belongs, or the other way round.",
        tests=(
            "tests/server/test_spec_inline.py::test_no_other_credential_answers_a_case",
            "tests/server/test_spec_inline.py::test_the_submit_token_opens_neither_page_nor_poll",
            "tests/server/test_spec_inline.py::test_a_case_without_inline_submit_takes_no_inline_answer",
        ),
    ),
    Requirement(
        id="7.5-same-path",
        section="7.5",
        level="MAY",
        text="Serve inline submit at the page's own address.",
        tests=(
            "tests/server/test_spec_inline.py::test_the_browser_and_the_button_have_addresses_of_their_own",
        ),
        divergence="It has an address of its own; agents use the one that is advertised (ruling 15).",
    ),
    Requirement(
        id="7.5-attributed",
        section="7.5",
        level="MUST",
        text="Every inline answer says by which button and by whom.",
        tests=(
            "tests/server/test_spec_inline.py::test_a_body_of_another_shape_is_refused_and_answers_nothing",
        ),
    ),
    Requirement(
        id="7.5-agent-tap",
        section="7.5",
        level="MUST NOT",
        text="Submit anything that nobody pressed a button for.",
        tests=(
            "tests/agent/test_channel_bridge.py::test_a_stranger_cannot_answer_and_is_told_so",
            "tests/agent/test_channel_bridge.py::test_repeated_press_is_submitted_once_and_gets_the_same_reply",
        ),
    ),
    Requirement(
        id="7.5-agent-token",
        section="7.5",
        level="MUST NOT",
        text="Put the submit token into what a messenger stores.",
        tests=(
            "tests/channels/telegram/test_whole_way.py::test_telegram_gets_no_token_besides_the_review_link",
        ),
    ),
    Requirement(
        id="7.5-agent-link",
        section="7.5",
        level="SHOULD",
        text="Always offer the link beside the buttons.",
        tests=(
            "tests/channels/discord/test_render.py::test_any_card_offers_its_link",
            "tests/channels/slack/test_render.py::test_any_card_offers_its_link",
            "tests/channels/teams/test_render.py::test_any_card_offers_its_link",
            "tests/channels/telegram/test_render.py::test_any_card_offers_its_link",
        ),
    ),
    Requirement(
        id="7.5-high-stakes",
        section="7.5",
        level="SHOULD",
        text="Leave inline submit out where much is at stake.",
        tests=("tests/reviews/test_confirmation.py::test_a_word_to_type_leaves_only_cancel_inline",),
    ),
    Requirement(
        id="7.5-channel-limits",
        section="7.5",
        level="STATED",
        text="Buttons keep to their platform's limits.",
        tests=(
            "tests/channels/discord/test_render.py::test_any_card_keeps_to_discords_limits",
            "tests/channels/slack/test_render.py::test_any_card_keeps_to_slacks_limits",
            "tests/channels/teams/test_render.py::test_any_card_keeps_to_teams_limits",
            "tests/channels/telegram/test_render.py::test_any_card_keeps_to_telegrams_limits",
        ),
    ),
)
