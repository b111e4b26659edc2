"""Spec 8 over HTTP: where a case stands, for its owner, cheap to ask again."""

from datetime import datetime

import pytest

from placet.protocol.poll import Status
from tests.server.running import running

FORM = {
    "form": {
        "steps": [
            {"title": "You", "fields": [{"key": "name", "label": "Name", "type": "text", "required": True}]},
            {"title": "Pets", "fields": [{"key": "pets", "label": "Pets", "type": "number"}]},
        ]
    }
}


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def cancelled(client, hitl, **body) -> dict:
    response = client.post(f"/v1/reviews/{hitl['case_id']}/cancel", json=body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.spec("8-status-field", "8-case-id-field", "8-created-at-field", "8-expires-at-field")
def test_a_new_case_is_pending(server, client):
    hitl = server.open(client)
    assert client.get(hitl["poll_url"]).json() == {
        "status": "pending",
        "case_id": hitl["case_id"],
        "created_at": hitl["created_at"],
        "expires_at": hitl["expires_at"],
    }


@pytest.mark.spec("8-opened-at-field", "8-expires-at-field", "8-intermediate-optional")
def test_a_page_before_a_person_makes_it_opened(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        assert page.post("opened", {}).response.status_code == 204
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "opened"
    assert parse_time(poll["opened_at"]) == server.clock()
    assert poll["expires_at"] == hitl["expires_at"]


@pytest.mark.spec("8-in-progress", "10.3.4-progress", "8-opened-at-field")
def test_a_form_being_filled_in_is_in_progress_and_says_how_far(server, client):
    hitl = server.open(client, type="input", context=FORM)
    with server.page(hitl) as page:
        page.post("respond", {"field.name": "Ada", "asked": "name", "action": "x-next"})
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "in_progress"
    assert poll["progress"]["current_step"] == 2
    assert poll["progress"]["total_steps"] == 2
    assert parse_time(poll["opened_at"]) == server.clock()


@pytest.mark.spec("8-completed-at-field", "8-result-field", "8-result-action-field", "8-result-data-field")
def test_an_answer_completes_it_with_the_result(server, client):
    hitl = server.open(client, inline_actions=["confirm"])
    assert server.press(hitl, "confirm", data={"note": "Not the cactus."}).status_code == 200
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "completed"
    assert parse_time(poll["completed_at"]) == server.clock()
    assert poll["result"]["action"] == "confirm"
    assert poll["result"]["data"] == {"note": "Not the cactus."}


@pytest.mark.spec("8-completed-at-field", "8-skip-intermediate", "0.9-pending-to-completed")
def test_an_answer_may_come_before_the_page_was_ever_seen(server, client):
    hitl = server.open(client, inline_actions=["confirm"])
    assert server.press(hitl, "confirm").status_code == 200
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "completed"
    assert "opened_at" not in poll


@pytest.mark.spec("8-expired-at-field", "8-default-action-field", "0.9-expiry-is-no-approval")
def test_time_running_out_reports_the_default_and_makes_up_no_result(server, client):
    hitl = server.open(client, timeout="1m", default_action="abort")
    server.advance(minutes=1)
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "expired"
    assert poll["expired_at"] == hitl["expires_at"]
    assert poll["default_action"] == "abort"
    assert "result" not in poll


@pytest.mark.spec("0.9-in-progress-to-expired")
def test_a_form_half_filled_in_expires_too(server, client):
    hitl = server.open(client, type="input", context=FORM, timeout="1m")
    with server.page(hitl) as page:
        page.post("respond", {"field.name": "Ada", "asked": "name", "action": "x-next"})
    assert client.get(hitl["poll_url"]).json()["status"] == "in_progress"
    server.advance(minutes=1)
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "expired"
    assert "progress" not in poll


@pytest.mark.spec("8-cancelled-at-field", "8-reason-field")
def test_a_withdrawn_case_says_when_and_why(server, client):
    hitl = server.open(client)
    poll = cancelled(client, hitl, reason="It rained.")
    assert poll["status"] == "cancelled"
    assert parse_time(poll["cancelled_at"]) == server.clock()
    assert poll["reason"] == "It rained."
    assert client.get(hitl["poll_url"]).json() == poll


@pytest.mark.spec("8-cancelled-at-field", "8-reason-field")
def test_a_person_may_say_that_they_will_not_decide(server, client):
    hitl = server.open(client, only_reviewer="Ada")
    with server.page(hitl) as page:
        page.post("hand-back", {"reason": "Ask the gardener."})
    poll = client.get(hitl["poll_url"]).json()
    assert (poll["status"], poll["reason"]) == ("cancelled", "Ask the gardener.")


@pytest.mark.spec("8-terminal", "13.2-conflict", "0.9-immutable")
@pytest.mark.parametrize("ending", ["completed", "expired", "cancelled"])
def test_nothing_moves_a_case_that_has_ended(server, client, ending):
    hitl = server.open(client, timeout="1m", inline_actions=["confirm", "cancel"])
    with server.page(hitl) as page:
        if ending == "completed":
            server.press(hitl, "confirm")
        elif ending == "expired":
            server.advance(minutes=1)
        else:
            cancelled(client, hitl)
        before = client.get(hitl["poll_url"])
        expected = 410 if ending == "expired" else 409
        assert server.press(hitl, "cancel").status_code == expected
        assert client.post(f"/v1/reviews/{hitl['case_id']}/cancel").status_code == expected
        for verb, fields in [
            ("respond", {"action": "cancel"}),
            ("hand-back", {}),
            ("opened", {}),
            ("pass-on", {}),
        ]:
            page.post(verb, fields)
    after = client.get(hitl["poll_url"])
    assert after.json()["status"] == ending
    assert after.content == before.content
    assert after.headers["etag"] == before.headers["etag"]


@pytest.mark.spec("8-status-field")
def test_the_six_states_have_the_specs_names():
    names = {"pending", "opened", "in_progress", "completed", "expired", "cancelled"}
    assert {status.value for status in Status} == names


@pytest.mark.spec("8-poll-auth", "0.9-owner-only", "0.9-id-is-no-capability")
def test_only_the_owner_may_poll(server, client):
    hitl = server.open(client)
    with server.client(server.create_key("neighbour")) as neighbour:
        assert neighbour.get(hitl["poll_url"]).status_code == 404
        assert neighbour.get(hitl["events_url"]).status_code == 404
        assert neighbour.post(f"/v1/reviews/{hitl['case_id']}/cancel").status_code == 404
        listed = neighbour.get("/v1/reviews").json()["cases"]
        assert hitl["case_id"] not in [one["poll"]["case_id"] for one in listed]
    for credential in (None, "wrong", hitl["review_url"].partition("token=")[2]):
        with server.client(credential) as nobody:
            for address in (hitl["poll_url"], hitl["events_url"]):
                refusal = nobody.get(address)
                assert refusal.status_code == 401
                assert refusal.headers["www-authenticate"] == "Bearer"


@pytest.mark.spec("8-poll-auth")
def test_the_key_that_opened_the_case_polls_it(server, client):
    hitl = server.open(client)
    assert client.get(hitl["poll_url"]).status_code == 200
    with server.client(server.create_key("acme")) as another_key_of_the_same_name:
        assert another_key_of_the_same_name.get(hitl["poll_url"]).status_code == 200


@pytest.mark.spec("8-opened-by-person")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_link_preview_opens_nothing(server, client, method):
    hitl = server.open(client)
    with server.client(follow_redirects=True) as preview:
        assert preview.request(method, hitl["review_url"]).status_code == 200
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("8-retry-after")
def test_a_live_case_says_when_to_ask_again_and_a_closed_one_does_not(server, client):
    hitl = server.open(client)
    server.advance(minutes=5)
    waiting = int(client.get(hitl["poll_url"]).headers["retry-after"])
    with server.page(hitl) as page:
        page.post("opened", {})
    looking = int(client.get(hitl["poll_url"]).headers["retry-after"])
    assert 0 < looking < waiting
    cancelled(client, hitl)
    assert "retry-after" not in client.get(hitl["poll_url"]).headers


@pytest.mark.spec("8-retry-after")
def test_retry_after_never_exceeds_the_deadline(server, client):
    hitl = server.open(client, timeout="5s")
    assert 1 <= int(client.get(hitl["poll_url"]).headers["retry-after"]) <= 6


@pytest.mark.spec("8-etag")
def test_an_unchanged_case_is_304_however_the_tag_is_sent(server, client):
    hitl = server.open(client)
    tag = client.get(hitl["poll_url"]).headers["etag"]
    for asked in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        response = client.get(hitl["poll_url"], headers={"If-None-Match": asked})
        assert response.status_code == 304
        assert response.content == b""
        assert response.headers["etag"] == tag
    assert client.get(hitl["poll_url"], headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.spec("8-etag")
def test_a_change_changes_the_tag(server, client):
    hitl = server.open(client)
    tag = client.get(hitl["poll_url"]).headers["etag"]
    cancelled(client, hitl)
    response = client.get(hitl["poll_url"], headers={"If-None-Match": tag})
    assert response.status_code == 200
    assert response.headers["etag"] != tag


@pytest.mark.spec("8-responded-by", "13.7-only-what-is-needed", "0.9-submitted-by")
def test_nobody_is_named_as_respondent_whom_the_server_did_not_verify(server, client):
    hitl = server.open(client, inline_actions=["confirm"])
    server.press(hitl, "confirm")
    poll = client.get(hitl["poll_url"]).json()
    assert "responded_by" not in poll
    assert poll["submission_context"]["submitted_by"]["display_name"] == "Ada"


@pytest.mark.spec("13.5-rate-limit", "13.5-too-many")
def test_polls_are_limited_for_each_case_and_the_wait_is_named(tmp_path):
    with running(tmp_path, polls_per_minute=3) as server, server.client(server.api_key) as client:
        first, second = server.open(client), server.open(client)
        remaining = [client.get(first["poll_url"]).headers["x-ratelimit-remaining"] for _ in range(3)]
        assert remaining == ["2", "1", "0"]
        refusal = client.get(first["poll_url"])
        assert (refusal.status_code, refusal.json()["error"]) == (429, "rate_limited")
        assert int(refusal.headers["retry-after"]) >= 1
        assert client.get(second["poll_url"]).status_code == 200
        cancelled(client, first)
        assert client.get(first["poll_url"]).json()["status"] == "cancelled"


@pytest.mark.spec("13.5-rate-limit")
def test_an_unchanged_case_costs_no_poll(tmp_path):
    with running(tmp_path, polls_per_minute=1) as server, server.client(server.api_key) as client:
        hitl = server.open(client)
        tag = client.get(hitl["poll_url"]).headers["etag"]
        again = [client.get(hitl["poll_url"], headers={"If-None-Match": tag}) for _ in range(5)]
        assert [response.status_code for response in again] == [304] * 5


@pytest.mark.spec("13.5-rate-limit")
def test_sixty_polls_a_minute_are_allowed_unless_set(server):
    assert server.parts.settings.polls_per_minute == 60
