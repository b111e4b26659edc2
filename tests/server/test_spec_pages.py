"""Spec 7 and 11 over HTTP: the review link and the page behind it, without any script."""

import re

import pytest

from tests.server.running import running


def token_of(hitl: dict) -> str:
    return hitl["review_url"].partition("token=")[2]


@pytest.mark.spec("7-no-login", "11-no-authentication")
def test_the_link_alone_opens_the_page(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        assert page.response.status_code == 200
        assert hitl["prompt"] in page.text


@pytest.mark.spec("13.1-verified", "7-verified")
@pytest.mark.parametrize("change", ["", "x", "wrong", "other", "digest"])
def test_a_wrong_token_opens_nothing(server, client, change):
    hitl, other = server.open(client), server.open(client)
    case = server.run(server.parts.store.get_case(hitl["case_id"]))
    wrong = {
        "": "",
        "x": token_of(hitl) + "x",
        "wrong": token_of(hitl)[:-1],
        "other": token_of(other),
        "digest": case.review_digests[0],
    }[change]
    with server.client(follow_redirects=True) as visitor:
        page = visitor.get(hitl["review_url"].replace(token_of(hitl), wrong))
    assert page.status_code == 401
    assert hitl["prompt"] not in page.text


@pytest.mark.spec("7-verified")
def test_without_a_token_or_a_session_there_is_no_page(server, client):
    hitl = server.open(client)
    with server.client() as visitor:
        response = visitor.get(hitl["review_url"].partition("?")[0])
    assert response.status_code == 401
    assert hitl["prompt"] not in response.text


@pytest.mark.spec("0.9-token-exchange", "0.9-csrf")
def test_the_token_leaves_the_address_bar_and_a_session_takes_its_place(server, client):
    hitl = server.open(client)
    with server.client() as visitor:
        entered = visitor.get(hitl["review_url"])
    assert entered.status_code == 303
    assert "token" not in entered.headers["location"]
    cookie = entered.headers["set-cookie"].lower()
    assert {"httponly", "samesite=lax"} <= {part.strip() for part in cookie.split(";")}
    assert hitl["case_id"] in cookie.partition("=")[0]
    assert token_of(hitl).lower() not in cookie


@pytest.mark.spec("0.9-csrf")
def test_a_post_from_elsewhere_decides_nothing(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        forged = page.post("respond", {"action": "confirm", "csrf": "guessed"})
        assert forged.response.status_code == 401
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("0.9-no-store")
def test_pages_and_answers_with_tokens_are_stored_nowhere_and_told_nobody(server, client):
    opened = client.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"})
    hitl = opened.json()["hitl"]
    assert opened.headers["cache-control"] == "no-store"
    assert client.get(hitl["poll_url"]).headers["cache-control"] == "no-store"
    with server.page(hitl) as page:
        headers = page.response.headers
        assert page.response.history[0].headers["cache-control"] == "no-store"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert "noindex" in headers["x-robots-tag"]
    assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.spec("7-expired-page", "11-expired-page")
def test_after_the_deadline_the_page_says_so_and_offers_no_form(server, client):
    hitl = server.open(client, timeout="1m")
    with server.page(hitl) as page:
        assert 'value="confirm"' in page.text
    server.advance(minutes=1)
    with server.page(hitl) as late:
        assert late.response.status_code == 200
        assert (
            "expired" in late.text.lower() or "too late" in late.text.lower() or "ended" in late.text.lower()
        )
        assert "<form" not in late.text


@pytest.mark.spec("7-answered-page", "11-idempotent")
def test_after_the_answer_the_page_shows_it_instead_of_a_fresh_form(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        answered = page.post("respond", {"action": "confirm", "note": "Only the ferns."})
        assert answered.response.status_code == 200
    with server.page(hitl) as again:
        assert "Only the ferns." in again.text
        assert 'value="confirm"' not in again.text


@pytest.mark.spec("11-idempotent", "13.2-conflict")
def test_the_same_form_sent_twice_is_one_answer_and_another_one_loses(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        fields = {"action": "confirm", "note": "Once."}
        first, again = page.post("respond", fields), page.post("respond", fields)
        assert first.response.status_code == again.response.status_code == 200
    with server.client() as visitor:
        address = hitl["review_url"].replace("?", "/respond?")
        second = visitor.post(address, json={"action": "cancel"})
    assert (second.status_code, second.json()["error"]) == (409, "duplicate_submission")
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "confirm"


@pytest.mark.spec("7-delegation", "13.7-bearer")
def test_a_person_with_the_link_can_answer_on_any_device(server, client):
    hitl = server.open(client)
    with server.page(hitl), server.page(hitl) as colleague:
        colleague.post("respond", {"action": "confirm"})
    assert client.get(hitl["poll_url"]).json()["status"] == "completed"


@pytest.mark.spec("7-delegation", "13.7-who-responded")
def test_passing_on_makes_a_link_of_its_own_and_the_log_knows_who_answered(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        [field] = re.findall(r'<textarea[^>]*name="(pass_on\w*)"', page.text)
        shown = page.post("pass-on", {field: "To Bea, who knows the ferns."})
    [link] = re.findall(rf"{server.url}/review/[\w-]+\?token=[\w-]{{43}}", shown.text)
    assert link != hitl["review_url"]
    with server.page({**hitl, "review_url": link}) as colleague:
        colleague.post("respond", {"action": "confirm"})
    log = server.run(server.parts.desk.list_events(hitl["case_id"]))
    events = {event.type: event for event in log}
    passed, answered = events["review.passed_on"], events["review.completed"]
    assert b"To Bea" in passed.data
    assert passed.actor.startswith("link:")
    assert answered.actor.startswith("link:")
    assert passed.actor != answered.actor


@pytest.mark.spec("11-result-schema")
def test_what_the_page_sends_has_the_shape_of_its_type(server, client):
    options = [{"id": "oak", "title": "Oak"}, {"id": "elm", "title": "Elm"}]
    hitl = server.open(client, type="selection", context={"options": options, "multiple": True})
    with server.page(hitl) as page:
        page.post("respond", {"action": "select", "selected": ["oak", "elm"], "note": "Both."})
    result = client.get(hitl["poll_url"]).json()["result"]
    assert result["action"] == "select"
    assert result["data"] == {"selected": ["oak", "elm"], "note": "Both."}


@pytest.mark.spec("11-result-schema")
def test_a_service_with_a_page_of_its_own_answers_in_json(server, client):
    hitl = server.open(client)
    with server.client() as page:
        respond = hitl["review_url"].replace("?", "/respond?")
        refused = page.post(respond, json={"action": "perhaps"})
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_action")
        accepted = page.post(respond, json={"action": "confirm", "data": {"note": "Yes."}})
    assert accepted.json() == client.get(hitl["poll_url"]).json()
    assert accepted.json()["submission_context"] == {"mode": "browser_submit"}


@pytest.mark.spec("11-surface-declared", "11-surface-optional")
def test_a_surface_is_declared_only_where_the_service_has_one(server, client):
    surface = {"format": "json-render", "version": "1.0"}
    assert server.open(client, surface=surface)["surface"] == surface
    assert "surface" not in server.open(client)


@pytest.mark.spec("11-responsive")
def test_pages_adapt_to_the_width_of_the_screen(server, client):
    with server.page(server.open(client)) as page:
        assert 'name="viewport" content="width=device-width, initial-scale=1"' in page.text


@pytest.mark.spec("10.3.1-default-ref", "0.9-destinations")
def test_a_default_is_not_fetched_from_inside_the_network(tmp_path):
    field = {"key": "iban", "label": "IBAN", "type": "text", "default_ref": "https://127.0.0.1/iban"}
    with running(tmp_path, allow_loopback=False) as server, server.client(server.api_key) as client:
        hitl = server.open(client, type="input", context={"form": {"fields": [field]}})
        with server.page(hitl) as page:
            assert page.response.status_code == 200
