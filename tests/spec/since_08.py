"""What 0.8 added: verification evidence."""

from tests.spec.requirement import Requirement

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        id="0.8-policy",
        section="0.8",
        level="OPTIONAL",
        text=(
            "`verification_policy` says when evidence is asked for, which, and bound to what; all "
            "five of its parts are there."
        ),
        tests=(
            "tests/server/test_spec_verification.py::test_a_policy_travels_with_the_case",
            "tests/server/test_spec_verification.py::test_a_malformed_policy_is_refused",
            "tests/protocol/test_verification.py::test_a_policy_asks_on_the_paths_it_names_unless_it_is_optional",
        ),
    ),
    Requirement(
        id="0.8-since",
        section="0.8",
        level="STATED",
        text="Older versions do not know it.",
        tests=(
            "tests/server/test_spec_verification.py::test_older_versions_know_no_verification",
            "tests/protocol/test_versions.py::test_an_older_version_lacks_what_came_later",
        ),
    ),
    Requirement(
        id="0.8-required",
        section="0.8",
        level="MUST",
        text="Required evidence is there and holds, on each path that is named.",
        tests=(
            "tests/server/test_spec_verification.py::test_required_evidence_that_is_missing_sends_the_person_to_the_page",
            "tests/server/test_spec_verification.py::test_evidence_that_the_provider_does_not_confirm_is_refused",
        ),
    ),
    Requirement(
        id="0.8-step-up",
        section="0.8",
        level="STATED",
        text="A step-up asks once its path is taken.",
        tests=("tests/server/test_spec_verification.py::test_a_step_up_asks_as_soon_as_its_path_is_taken",),
        divergence="A step-up counts as required on the paths it names: in doubt, hold.",
    ),
    Requirement(
        id="0.8-server-side",
        section="0.8",
        level="MUST",
        text="Evidence is judged by the service, on the server.",
        tests=(
            "tests/server/test_spec_verification.py::test_evidence_that_the_provider_does_not_confirm_is_refused",
            "tests/server/test_spec_verification.py::test_a_policy_that_nothing_can_meet_is_refused_and_no_provider_is_needed",
        ),
    ),
    Requirement(
        id="0.8-browser-path",
        section="0.8",
        level="MUST",
        text="Evidence for the page is taken on the page; the agent never carries it.",
        tests=(
            "tests/server/test_spec_verification.py::test_evidence_for_the_page_is_brought_by_the_page_and_not_by_the_agent",
            "tests/browser/test_proofs_in_browser.py::test_a_person_registers_a_passkey_and_proves_an_answer",
        ),
    ),
    Requirement(
        id="0.8-bound",
        section="0.8",
        level="MUST",
        text="Evidence is bound to case and action and used once, where the policy says so.",
        tests=(
            "tests/server/test_spec_verification.py::test_evidence_bound_to_another_case_is_refused",
            "tests/server/test_spec_verification.py::test_evidence_bound_to_another_action_is_refused",
            "tests/server/test_spec_verification.py::test_evidence_must_answer_the_challenge_in_time",
            "tests/server/test_spec_verification.py::test_evidence_is_used_once",
            "tests/server/test_page_proofs.py::test_a_passkey_proves_one_answer_of_one_case",
        ),
    ),
    Requirement(
        id="0.8-agents-opaque",
        section="0.8",
        level="MUST NOT",
        text="Make up, change or read evidence.",
        tests=(
            "tests/agent/test_duties.py::test_agent_sends_no_evidence",
            "tests/agent/test_service_responses.py::test_required_evidence_leaves_only_the_link",
        ),
    ),
    Requirement(
        id="0.8-no-raw-proof",
        section="0.8",
        level="MUST NOT",
        text="Show raw proofs in a poll.",
        tests=(
            "tests/server/test_spec_verification.py::test_the_outcome_is_told_and_the_proof_itself_is_not",
        ),
    ),
    Requirement(
        id="0.8-result",
        section="0.8",
        level="MUST",
        text="The poll tells what came of the evidence, where any was asked for or presented.",
        tests=(
            "tests/server/test_spec_verification.py::test_the_outcome_is_told_and_the_proof_itself_is_not",
            "tests/server/test_spec_verification.py::test_a_policy_that_only_offers_tells_that_nothing_was_presented",
        ),
    ),
    Requirement(
        id="0.8-submission-context",
        section="0.8",
        level="OPTIONAL",
        text="`submission_context` tells by which path the answer came.",
        tests=("tests/protocol/test_wire.py::test_submission_context_is_sent_since_0_8",),
    ),
    Requirement(
        id="0.8-not-authorization",
        section="0.8",
        level="MUST NOT",
        text="Take a proof of a human for a permission.",
        tests=("tests/server/test_spec_verification.py::test_a_proof_of_a_human_is_no_token",),
    ),
    Requirement(
        id="0.8-no-provider-required",
        section="0.8",
        level="MUST NOT",
        text="Depend on any one provider.",
        tests=(
            "tests/server/test_spec_verification.py::test_a_policy_that_nothing_can_meet_is_refused_and_no_provider_is_needed",
        ),
    ),
    Requirement(
        id="0.8-codes",
        section="0.8",
        level="STATED",
        text=(
            "Missing evidence is 403 `verification_required`, evidence that does not hold "
            "`verification_failed`."
        ),
        tests=(
            "tests/server/test_spec_verification.py::test_required_evidence_that_is_missing_sends_the_person_to_the_page",
            "tests/server/test_spec_verification.py::test_evidence_that_the_provider_does_not_confirm_is_refused",
        ),
    ),
    Requirement(
        id="0.8-agent-page",
        section="0.8",
        level="SHOULD",
        text="After either, send the person to the page instead of trying again.",
        tests=("tests/agent/test_service_responses.py::test_required_evidence_leaves_only_the_link",),
    ),
    Requirement(
        id="0.8-discovery",
        section="0.8",
        level="STATED",
        text="Discovery tells how to authenticate.",
        tests=(
            "tests/server/test_spec_security.py::test_discovery_has_the_shape_of_the_version_asked_for",
            "tests/protocol/test_discovery.py::test_the_document_tells_what_this_server_can_do",
        ),
    ),
    Requirement(
        id="0.8-agent-binding",
        section="0.8",
        level="OPTIONAL",
        text="Bind cases to an agent's own identity.",
        tests=(
            "tests/server/test_agent_access.py::test_a_proof_of_possession_holds_for_one_request_with_one_key",
        ),
        divergence="For services that embed Placet; API keys of the server are not bound, as discovery says.",
    ),
    Requirement(
        id="0.8-world-id",
        section="0.8",
        level="OPTIONAL",
        text="Use World ID as a provider.",
        tests=(
            "tests/server/test_world_id.py::test_an_inline_answer_with_a_proof_of_world_id_is_taken",
            "tests/server/test_world_id.py::test_a_proof_made_for_anything_else_is_refused",
        ),
    ),
)
