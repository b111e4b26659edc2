"""What 0.9 made firm: owners, one immutable answer, privacy, callbacks."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="0.9-known-versions",
        section="0.9",
        level="MUST NOT",
        text="Take an unknown version for a known one.",
        tests=(
            "tests/server/test_spec_opening.py::test_the_version_asked_for_is_the_version_served",
            "tests/server/test_spec_opening.py::test_an_unknown_version_is_refused_by_name",
            "tests/server/test_spec_security.py::test_discovery_has_the_shape_of_the_version_asked_for",
            "tests/server/test_spec_security.py::test_discovery_in_an_unknown_version_is_refused",
            "tests/protocol/test_versions.py::test_an_unknown_version_is_refused_by_name",
        ),
    ),
    Requirement(
        id="0.9-pending-to-completed",
        section="0.9",
        level="STATED",
        text="A pending case can be answered.",
        tests=(
            "tests/server/test_spec_poll.py::test_an_answer_may_come_before_the_page_was_ever_seen",
            "tests/cases/test_machine.py::test_an_order_in_time_does_what_is_expected",
        ),
    ),
    Requirement(
        id="0.9-in-progress-to-expired",
        section="0.9",
        level="STATED",
        text="A case in progress can expire.",
        tests=("tests/server/test_spec_poll.py::test_a_form_half_filled_in_expires_too",),
    ),
    Requirement(
        id="0.9-immutable",
        section="0.9",
        level="MUST NOT",
        text="Change an answer that was accepted.",
        tests=(
            "tests/server/test_spec_poll.py::test_nothing_moves_a_case_that_has_ended",
            "tests/server/test_spec_security.py::test_an_answer_cannot_be_edited_however_soon",
        ),
    ),
    Requirement(
        id="0.9-corrections",
        section="0.9",
        level="STATED",
        text="A correction is a new case with `previous_case_id`.",
        tests=(
            "tests/server/test_spec_security.py::test_an_answer_cannot_be_edited_however_soon",
            "tests/server/test_spec_types.py::test_an_edit_completes_its_round_and_the_next_one_continues_it",
        ),
    ),
    Requirement(
        id="0.9-atomic",
        section="0.9",
        level="MUST",
        text="Answer and terminal state change together, with one winner; losers get 409.",
        tests=(
            "tests/server/test_spec_security.py::test_of_many_answers_at_once_exactly_one_wins",
            "tests/desk/test_answering.py::test_of_sixty_four_answers_at_once_one_wins",
            "tests/desk/test_answering.py::test_an_answer_and_a_withdrawal_at_once_leave_one_end",
        ),
    ),
    Requirement(
        id="0.9-deadline-at-answer",
        section="0.9",
        level="MUST",
        text="The deadline counts when the answer comes, whatever the timers do.",
        tests=(
            "tests/server/test_spec_inline.py::test_an_answer_after_the_deadline_is_late_even_if_no_timer_has_run",
            "tests/cases/test_machine.py::test_a_person_or_owner_is_late_from_the_very_moment_of_expiry",
        ),
    ),
    Requirement(
        id="0.9-decision-only",
        section="0.9",
        level="STATED",
        text="`completed` means decided, not done.",
        not_ours="We execute nothing; the agent acts on the answer (ruling 6).",
    ),
    Requirement(
        id="0.9-expiry-is-no-approval",
        section="0.9",
        level="MUST NOT",
        text="Count expiry or a default as approval.",
        tests=(
            "tests/server/test_spec_opening.py::test_silence_approves_only_where_the_service_said_so_and_never_a_confirmation",
            "tests/server/test_spec_poll.py::test_time_running_out_reports_the_default_and_makes_up_no_result",
            "tests/protocol/test_wire.py::test_an_expired_case_has_no_result_whatever_its_default_says",
        ),
    ),
    Requirement(
        id="0.9-owner-only",
        section="0.9",
        level="MUST",
        text="Polls and streams are for the principal that opened the case.",
        tests=(
            "tests/server/test_spec_poll.py::test_only_the_owner_may_poll",
            "tests/server/test_spec_security.py::test_a_case_that_was_opened_anonymously_can_be_polled_so_and_no_other",
            "tests/server/test_spec_security.py::test_a_key_does_only_what_its_scopes_allow",
        ),
    ),
    Requirement(
        id="0.9-id-is-no-capability",
        section="0.9",
        level="STATED",
        text="Knowing a case's id opens nothing.",
        tests=(
            "tests/server/test_spec_poll.py::test_only_the_owner_may_poll",
            "tests/desk/test_rounds.py::test_a_stranger_cannot_tell_an_existing_case_from_none",
        ),
    ),
    Requirement(
        id="0.9-no-store",
        section="0.9",
        level="MUST",
        text="Answers with tokens or private results are stored nowhere on the way.",
        tests=(
            "tests/server/test_spec_pages.py::test_pages_and_answers_with_tokens_are_stored_nowhere_and_told_nobody",
        ),
    ),
    Requirement(
        id="0.9-log-redaction",
        section="0.9",
        level="MUST",
        text="Logs carry no tokens.",
        tests=("tests/server/test_spec_security.py::test_what_is_logged_carries_no_token_and_no_answer",),
    ),
    Requirement(
        id="0.9-token-exchange",
        section="0.9",
        level="SHOULD",
        text="The token in the link is exchanged for a short session, and leaves the address.",
        tests=(
            "tests/server/test_spec_pages.py::test_the_token_leaves_the_address_bar_and_a_session_takes_its_place",
        ),
    ),
    Requirement(
        id="0.9-csrf",
        section="0.9",
        level="MUST",
        text="Forms under a cookie are protected against forgery.",
        tests=(
            "tests/server/test_spec_pages.py::test_the_token_leaves_the_address_bar_and_a_session_takes_its_place",
            "tests/server/test_spec_pages.py::test_a_post_from_elsewhere_decides_nothing",
        ),
    ),
    Requirement(
        id="0.9-no-downgrade",
        section="0.9",
        level="MUST NOT",
        text="Fall back to the link alone where an identity or proof is asked for.",
        tests=(
            "tests/server/test_spec_verification.py::test_a_policy_that_nothing_can_meet_is_refused_and_no_provider_is_needed",
            "tests/server/test_spec_verification.py::test_evidence_for_the_page_is_brought_by_the_page_and_not_by_the_agent",
        ),
    ),
    Requirement(
        id="0.9-submitted-by",
        section="0.9",
        level="MUST NOT",
        text="Take `submitted_by` for a verified identity.",
        tests=(
            "tests/server/test_spec_poll.py::test_nobody_is_named_as_respondent_whom_the_server_did_not_verify",
        ),
    ),
    Requirement(
        id="0.9-verify-before-trust",
        section="0.9",
        level="MUST",
        text="Callbacks are verified in constant time before they are believed.",
        tests=(
            "tests/server/test_spec_callbacks.py::test_the_signature_is_the_hmac_of_the_body_under_the_shared_secret",
            "tests/server/test_spec_callbacks.py::test_a_callback_that_was_tampered_with_does_not_verify",
            "tests/protocol/test_callback.py::test_changed_body_does_not_verify",
        ),
    ),
    Requirement(
        id="0.9-duplicates",
        section="0.9",
        level="MUST",
        text="Receivers cope with repeats.",
        tests=(
            "tests/server/test_spec_callbacks.py::test_a_receiver_in_trouble_is_tried_again_with_the_same_bytes_and_id",
            "tests/protocol/test_callback.py::test_old_and_future_callbacks_are_refused",
        ),
    ),
    Requirement(
        id="0.9-unsigned-callback",
        section="0.9",
        level="STATED",
        text="An unsigned callback may at most make the agent poll.",
        tests=("tests/agent/test_callbacks.py::test_unverified_callbacks_cause_rate_limited_polls",),
    ),
    Requirement(
        id="0.9-destinations",
        section="0.9",
        level="MUST",
        text=(
            "Callback addresses are checked: no credentials, nothing inside the network after lookup, "
            "no redirects, bounded time, size and tries."
        ),
        tests=(
            "tests/server/test_spec_callbacks.py::test_addresses_inside_the_network_or_with_credentials_are_refused",
            "tests/server/test_spec_callbacks.py::test_redirects_are_not_followed",
            "tests/server/test_spec_pages.py::test_a_default_is_not_fetched_from_inside_the_network",
            "tests/deliveries/test_guarded_http.py::test_name_that_moves_to_a_forbidden_address_is_refused_then",
            "tests/deliveries/test_guarded_http.py::test_endless_body_is_cut_and_the_connection_closed",
            "tests/deliveries/test_guarded_http.py::test_slow_answer_ends_in_time",
            "tests/deliveries/test_webhook.py::test_redirect_is_a_failure_and_not_followed",
        ),
    ),
    Requirement(
        id="0.9-agent-endpoints",
        section="0.9",
        level="MUST",
        text="Check addresses against what is trusted before sending credentials there.",
        tests=("tests/agent/test_following.py::test_credentials_are_not_sent_to_another_origin",),
    ),
    Requirement(
        id="0.9-poll-fields",
        section="0.9",
        level="OPTIONAL",
        text="`created_at`, `opened_at`, `expires_at` and `result.data` may be left out.",
        tests=("tests/protocol/test_wire.py::test_a_poll_has_the_fields_of_its_version_and_state_only",),
        divergence=(
            "`created_at` and `result.data` are always sent, since older versions require them (ruling 16)."
        ),
    ),
    Requirement(
        id="0.9-poll-variants",
        section="0.9",
        level="MUST NOT",
        text="Send `result` or who answered before the case is completed.",
        tests=("tests/protocol/test_wire.py::test_a_poll_has_the_fields_of_its_version_and_state_only",),
    ),
    Requirement(
        id="0.9-signature-profile",
        section="0.9",
        level="STATED",
        text="A signature's bytes and keys are defined; its presence alone proves nothing.",
        tests=(
            "tests/server/test_spec_security.py::test_a_result_can_be_verified_by_anyone_with_the_published_keys",
            "tests/signing/test_verify_result.py::test_one_altered_field_is_refused",
        ),
    ),
    Requirement(
        id="0.9-mcp",
        section="0.9",
        level="OPTIONAL",
        text="Reviews map to MCP elicitation.",
        tests=(
            "tests/mcp/test_asking.py::test_the_person_is_shown_the_link_and_their_decision_comes_back",
            "tests/mcp/test_transports.py::test_over_stdio_the_link_goes_to_the_person_and_the_decision_to_the_assistant",
            "tests/mcp/test_transports.py::test_a_client_that_only_knows_forms_is_never_sent_a_link_to_show",
        ),
    ),
    Requirement(
        id="0.9-mcp-tasks",
        section="0.9",
        level="OPTIONAL",
        text="Long reviews map to MCP's Tasks extension.",
        not_ours=(
            "Informative; the MCP library has no Tasks extension. A repeated call reports the case, by URL "
            "elicitation of both revisions."
        ),
    ),
    Requirement(
        id="0.9-agent-access",
        section="0.9",
        level="OPTIONAL",
        text="Agents prepare and commit operations under a profile of its own.",
        tests=(
            "tests/server/test_agent_access.py::test_only_a_confirmation_makes_an_operation_ready",
            "tests/server/test_agent_access.py::test_a_commit_names_the_terms_that_were_reviewed",
            "tests/server/test_agent_access.py::test_the_review_of_an_operation_keeps_the_rules_of_the_profile",
            "tests/server/test_agent_access.py::test_a_proof_of_possession_holds_for_one_request_with_one_key",
        ),
        divergence="For services that embed Placet; tokens come from their authorization server.",
    ),
)
