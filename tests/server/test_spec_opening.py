"""Spec 6 over HTTP: what a service gets when it puts a question before a person."""

import re
from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from placet.protocol.versions import SPEC_VERSIONS
from placet.reviews.registry import REVIEW_TYPES
from tests.server.running import EXAMPLE

AGENT = "https://agent.example/hooks/decisions"


def get_lifetime(hitl: dict) -> timedelta:
    return datetime.fromisoformat(hitl["expires_at"]) - datetime.fromisoformat(hitl["created_at"])


@pytest.mark.spec("6-accepted", "6-status-field", "6-hitl-field")
def test_a_question_that_needs_a_person_is_accepted_with_202(client):
    response = client.post("/v1/cases", json=EXAMPLE)
    body = response.json()
    assert response.status_code == 202
    assert body["status"] == "human_input_required"
    assert body["hitl"]["type"] == "confirmation"


@pytest.mark.spec("6-not-for-others")
@pytest.mark.parametrize(
    "draft",
    [
        {},
        {"type": "approval"},
        {**EXAMPLE, "type": "opinion"},
        {**EXAMPLE, "timeout": "soon"},
        [EXAMPLE],
        "x",
        7,
    ],
    ids=str,
)
def test_a_request_that_cannot_be_asked_is_refused_and_opens_nothing(client, draft):
    before = client.get("/v1/reviews", params={"limit": 1}).json()["cases"]
    response = client.post("/v1/cases", json=draft)
    assert response.status_code == 400
    assert "hitl" not in response.json()
    assert client.get("/v1/reviews", params={"limit": 1}).json()["cases"] == before


@pytest.mark.spec("6-message-field")
def test_there_is_always_a_message_for_the_agent_to_relay(client):
    own = client.post("/v1/cases", json={**EXAMPLE, "message": "The plants need a word."}).json()
    none = client.post("/v1/cases", json=EXAMPLE).json()
    assert own["message"] == "The plants need a word."
    assert none["message"] == EXAMPLE["prompt"]


@pytest.mark.spec("6-spec-version", "0.9-known-versions")
@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_the_version_asked_for_is_the_version_served(server, client, version):
    assert server.open(client, spec_version=version)["spec_version"] == version


@pytest.mark.spec("6-spec-version", "0.9-known-versions")
@pytest.mark.parametrize("version", ["0.4", "1.0", "0.9.0", "", "latest"])
def test_an_unknown_version_is_refused_by_name(client, version):
    response = client.post("/v1/cases", json={**EXAMPLE, "spec_version": version})
    assert response.status_code == 400
    assert repr(version) in response.json()["message"]


@pytest.mark.spec("6-case-id", "6-case-id-form")
def test_case_ids_are_unique_and_safe_in_urls(server, client):
    ids = [server.open(client)["case_id"] for _ in range(20)]
    assert len(set(ids)) == 20
    assert all(re.fullmatch(r"review_[A-Za-z0-9_-]{22,}", one) for one in ids)


@pytest.mark.spec("6-review-url", "6-review-url-token", "7-generation", "13.1-token-in-url")
def test_the_review_link_is_absolute_and_carries_its_own_token(server, client):
    first, second = server.open(client), server.open(client)
    for hitl in (first, second):
        parts = urlsplit(hitl["review_url"])
        assert f"{parts.scheme}://{parts.netloc}" == server.url
        assert parts.path == f"/review/{hitl['case_id']}"
        assert re.fullmatch(r"[A-Za-z0-9_-]{43}", parse_qs(parts.query)["token"][0])
    assert first["review_url"].partition("token=")[2] != second["review_url"].partition("token=")[2]


@pytest.mark.spec("6-poll-url", "6-events-url")
def test_the_poll_and_event_addresses_work_as_given(server, client):
    hitl = server.open(client)
    assert client.get(hitl["poll_url"]).json()["case_id"] == hitl["case_id"]
    assert client.head(hitl["events_url"]).headers["content-type"].startswith("text/event-stream")


@pytest.mark.spec("6-callback-url", "6-honour-callback")
def test_the_callback_address_is_echoed_and_null_without_one(server, client):
    receiver = "http://127.0.0.1:9/hook"
    assert server.open(client, callback_url=receiver)["callback_url"] == receiver
    assert server.open(client)["callback_url"] is None


@pytest.mark.spec("6-type", "10-types")
@pytest.mark.parametrize("kind", REVIEW_TYPES.values(), ids=lambda kind: kind.name)
def test_each_standard_type_can_be_asked(server, client, kind):
    assert server.open(client, **kind.example())["type"] == kind.name


@pytest.mark.spec("6-type", "10-custom-namespaced")
@pytest.mark.parametrize("type", ["opinion", "x-", "x_own", "X-own", "x-own\n", "approval ", ""])
def test_a_type_is_a_standard_one_or_an_x_type(client, type):
    response = client.post("/v1/cases", json={**EXAMPLE, "type": type, "actions": ["go"]})
    assert response.status_code == 400


@pytest.mark.spec("6-prompt")
@pytest.mark.parametrize(("prompt", "status"), [("?" * 500, 202), ("?" * 501, 400), ("", 400), (" \n", 400)])
def test_the_prompt_says_something_in_at_most_500_characters(client, prompt, status):
    assert client.post("/v1/cases", json={**EXAMPLE, "prompt": prompt}).status_code == status


@pytest.mark.spec("6-timeout", "13.1-short-lived")
@pytest.mark.parametrize(
    ("timeout", "lasts"),
    [
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("PT24H", timedelta(hours=24)),
        ("P7D", timedelta(days=7)),
        ("1d12h", timedelta(hours=36)),
    ],
)
def test_timeouts_are_read_in_both_notations(server, client, timeout, lasts):
    hitl = server.open(client, timeout=timeout)
    assert hitl["timeout"] == timeout
    assert get_lifetime(hitl) == lasts


@pytest.mark.spec("6-timeout", "13.1-short-lived")
def test_a_case_stays_open_for_a_day_unless_told_and_for_a_week_at_most(server, client):
    assert get_lifetime(server.open(client)) == timedelta(hours=24)
    response = client.post("/v1/cases", json={**EXAMPLE, "timeout": "8d"})
    assert response.status_code == 400
    assert "7d" in response.json()["message"]


@pytest.mark.spec("6-default-action")
@pytest.mark.parametrize("action", ["skip", "reject", "abort"])
def test_the_default_action_is_skip_unless_told(server, client, action):
    assert server.open(client, default_action=action)["default_action"] == action
    assert server.open(client)["default_action"] == "skip"


@pytest.mark.spec("6-default-action", "0.9-expiry-is-no-approval")
def test_silence_approves_only_where_the_service_said_so_and_never_a_confirmation(server, client):
    approval = {"type": "approval", "prompt": "May I?", "default_action": "approve"}
    assert client.post("/v1/cases", json=approval).status_code == 400
    assert server.open(client, **approval, allow_default_approve=True)["default_action"] == "approve"
    gate = {**EXAMPLE, "default_action": "approve", "allow_default_approve": True}
    assert client.post("/v1/cases", json=gate).status_code == 400


@pytest.mark.spec("6-created-at", "6-expires-at")
def test_a_case_says_when_it_was_asked_and_until_when(server, client):
    hitl = server.open(client, timeout="2h")
    assert datetime.fromisoformat(hitl["created_at"]) == server.clock()
    assert datetime.fromisoformat(hitl["expires_at"]) == server.clock() + timedelta(hours=2)


@pytest.mark.spec("6-context")
def test_the_context_travels_as_it_was_given(server, client):
    context = {"room": "kitchen", "pots": [1, 2.5, None], "deep": {"er": {"est": "✓"}}}
    assert server.open(client, context=context)["context"] == context
    assert "context" not in server.open(client)


@pytest.mark.spec("6-reminder-at")
def test_one_reminder_or_several_are_echoed(server, client):
    first, second = (
        (server.clock() + timedelta(hours=hours)).isoformat().replace("+00:00", "Z") for hours in (2, 6)
    )
    assert server.open(client, reminder_at=first)["reminder_at"] == first
    assert server.open(client, reminder_at=[second, first])["reminder_at"] == [first, second]


@pytest.mark.spec("6-reminder-at")
@pytest.mark.parametrize("hours", [-1, 25])
def test_a_reminder_outside_the_life_of_the_case_is_refused(server, client, hours):
    moment = (server.clock() + timedelta(hours=hours)).isoformat()
    assert client.post("/v1/cases", json={**EXAMPLE, "reminder_at": moment}).status_code == 400


@pytest.mark.spec("6-previous-case-id", "8-next-case-id", "10.1-rounds")
def test_a_follow_up_is_linked_in_both_directions(server, client):
    first = server.open(client)
    with server.page(first) as page:
        page.post("respond", {"action": "confirm"})
    second = server.open(client, previous_case_id=first["case_id"])
    assert second["previous_case_id"] == first["case_id"]
    assert client.get(first["poll_url"]).json()["next_case_id"] == second["case_id"]
    chain = client.get("/v1/reviews", params={"chain": second["case_id"]}).json()["cases"]
    assert [one["poll"]["case_id"] for one in chain] == [first["case_id"], second["case_id"]]


@pytest.mark.spec("6-previous-case-id")
def test_a_case_continues_only_one_of_its_owners_own(server, client):
    theirs = server.open(client)["case_id"]
    with server.client(server.create_key("stranger")) as stranger:
        for previous in (theirs, "review_none"):
            draft = {**EXAMPLE, "previous_case_id": previous}
            assert stranger.post("/v1/cases", json=draft).status_code == 400
