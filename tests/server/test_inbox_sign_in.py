"""Signing in to the inbox and out, and forms that are not its own."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest

from placet.desk.api_keys import create_key, revoke_key
from placet.server import case_sessions
from placet.server.inbox_pages import SIGN_INS_PER_MINUTE
from placet.server.logs import redact
from tests.server.inboxes import INBOX, InboxPerson, find_link, person
from tests.server.running import RunningServer

COOKIE = "placet_inbox"


@pytest.fixture
def key(server: RunningServer) -> str:
    return server.create_key("ada", "inbox:all")


@pytest.fixture
def ada(server: RunningServer, key: str) -> Iterator[InboxPerson]:
    with person(server, key) as found:
        yield found


def key_id(server: RunningServer, name: str) -> str:
    return next(one.id for one in server.run(server.parts.store.list_api_keys()) if one.name == name)


# Signing in


def test_without_signing_in_a_person_sees_only_the_sign_in_form(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, prompt="Is this a secret?")
    with person(server) as stranger:
        text = stranger.get_list()
    assert 'name="key"' in text
    assert "Is this a secret?" not in text
    assert hitl["case_id"] not in text


def test_a_key_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_get(
    server: RunningServer, key: str
) -> None:
    with server.client() as client:
        response = client.post(f"{INBOX}/sign-in", data={"key": f"  {key}\n"})
    assert (response.status_code, response.headers["location"]) == (303, INBOX)
    cookie = response.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert key not in str(response.headers)
    assert response.headers["cache-control"] == "no-store"


def test_a_key_that_is_wrong_or_missing_opens_nothing_and_says_so(server: RunningServer) -> None:
    for presented, words in {
        "placet_wrong": "not known here",
        "": "Enter your key",
        "é" * 50: "not known",
    }.items():
        with person(server) as stranger:
            response = stranger.sign_in(presented)
            assert response.status_code == 401
            assert words in response.text
            assert "set-cookie" not in response.headers or COOKIE not in response.headers["set-cookie"]
            assert not stranger.signed_in
            if presented:
                assert presented not in response.text


@pytest.mark.parametrize("scopes", [("cases:write", "cases:read"), ("admin",), ("cases:read",)])
def test_a_key_for_programs_does_not_open_the_inbox_not_even_an_administrators(
    server: RunningServer, scopes: tuple[str, ...]
) -> None:
    with person(server) as program:
        response = program.sign_in(server.create_key("program", *scopes))
        assert response.status_code == 403
        assert "does not open the inbox" in response.text
        assert not program.signed_in


def test_a_revoked_key_signs_nobody_in_and_ends_its_sessions_at_once(own_server: RunningServer) -> None:
    key = own_server.create_key("ada", "inbox:all")
    with own_server.client(own_server.api_key) as agent, person(own_server, key) as ada:
        hitl = own_server.open(agent)
        page = ada.page(hitl["case_id"])
        assert ada.signed_in
        csrf = ada.csrf()
        own_server.run(revoke_key(own_server.parts.store, key_id(own_server, "ada"), own_server.clock()))
        assert not ada.signed_in
        assert ada.sign_in(key).status_code == 401
        for path in ("open", "sign-out"):
            refused = ada.client.post(f"{INBOX}/{path}", data={"csrf": csrf, "case": hitl["case_id"]})
            assert refused.status_code == 401
            assert "Please sign in again" in refused.text
        # What was opened before is closed too: the page, and the answer on it.
        assert ada.client.get(page.response.url).status_code == 401
        late = page.post("respond", {"action": "confirm"}).response
        assert late.status_code == 401
        assert find_link(late.text, "Back to the inbox") == INBOX
        assert agent.get(hitl["poll_url"]).json()["status"] == "opened"


def test_a_key_that_ends_takes_its_sessions_along(own_server: RunningServer) -> None:
    made = create_key(
        own_server.parts.store,
        "ada",
        now=own_server.clock(),
        scopes=("inbox",),
        expires_for=timedelta(hours=1),
    )
    key = own_server.run(made)
    with person(own_server, key) as ada:
        own_server.advance(minutes=59)
        assert ada.signed_in
        own_server.advance(minutes=1)
        assert not ada.signed_in
        assert ada.sign_in(key).status_code == 401


def test_a_session_ends_after_half_a_day(own_server: RunningServer) -> None:
    with person(own_server, own_server.create_key("ada", "inbox")) as ada:
        own_server.clock.advance(case_sessions.SESSION_LIFETIME - timedelta(seconds=2))
        assert ada.signed_in
        own_server.advance(seconds=2)
        assert not ada.signed_in


def test_no_part_of_a_cookie_can_be_changed(server: RunningServer, key: str, ada: InboxPerson) -> None:
    cookie = ada.client.cookies[COOKIE]
    assert key not in cookie
    forged = [
        cookie[:place] + ("0" if cookie[place] != "0" else "1") + cookie[place + 1 :]
        for place in range(0, 43, 3)
    ]
    for one in [*forged, "", "..", "x.1.y", cookie.upper(), f"{cookie}0"]:
        with server.client(cookies={COOKIE: one}) as stranger:
            assert "sign-out" not in stranger.get(INBOX).text, one


def test_signing_out_closes_the_inbox_and_the_pages_that_were_opened_from_it(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    page = ada.page(server.open(client)["case_id"])
    left = ada.client.post(f"{INBOX}/sign-out", data={"csrf": ada.csrf()})
    assert 'name="key"' in left.text
    assert not ada.signed_in
    assert ada.client.get(page.response.url).status_code == 401
    assert page.post("respond", {"action": "confirm"}).response.status_code == 401


def test_too_many_attempts_from_one_place_are_refused_for_a_while(own_server: RunningServer) -> None:
    key = own_server.create_key("ada", "inbox")
    with person(own_server) as guesser:
        answers = [guesser.sign_in(f"placet_{n}") for n in range(SIGN_INS_PER_MINUTE)]
        assert {answer.status_code for answer in answers} == {401}
        tries = (guesser.sign_in(key if n % 2 else "placet_x") for n in range(100 * SIGN_INS_PER_MINUTE))
        refused = next(answer for answer in tries if answer.status_code == 429)
        assert "Too many requests came at once" in refused.text
        assert int(refused.headers["retry-after"]) >= 1


def test_the_log_says_who_signed_in_and_never_with_which_key(
    server: RunningServer, key: str, ada: InboxPerson, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    ada.sign_in(key)
    ada.sign_in(f"{key}x")
    assert caplog.messages.count("inbox_signed_in key=ada") == 1
    assert key not in caplog.text
    cookie = ada.client.cookies[COOKIE]
    assert redact(f"Cookie: {COOKIE}={cookie}; a=b") == f"Cookie: {COOKIE}=[redacted]; a=b"


# Forms of other sites


def test_a_form_without_the_right_token_does_nothing(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    with person(server, server.create_key("ben", "inbox:all")) as ben:
        foreign = ben.csrf()
    good = ada.csrf()
    assert len({foreign, good, ""}) == 3
    for csrf in ("", "x", foreign, good[:-1], good.upper()):
        for path in ("open", "sign-out"):
            refused = ada.client.post(f"{INBOX}/{path}", data={"csrf": csrf, "case": hitl["case_id"]})
            assert refused.status_code == 401
    assert ada.signed_in
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.parametrize("path", ["sign-in", "open", "sign-out"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_form_on_another_site_does_nothing(
    server: RunningServer, client: httpx.Client, ada: InboxPerson, key: str, path: str, site: str
) -> None:
    hitl = server.open(client)
    data = {"csrf": ada.csrf(), "case": hitl["case_id"], "key": key}
    refused = ada.client.post(f"{INBOX}/{path}", data=data, headers={"sec-fetch-site": site})
    assert refused.status_code == 401
    assert ada.signed_in
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


def test_a_page_from_the_inbox_takes_no_answer_without_its_own_token(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    page = ada.page(hitl["case_id"])
    inboxes = ada.csrf()
    for csrf in ("", "x", inboxes):
        assert page.post("respond", {"action": "confirm", "csrf": csrf}).response.status_code == 401
    assert client.get(hitl["poll_url"]).json()["status"] == "opened"


def test_the_inbox_is_asked_for_once_more_when_another_site_led_here(server: RunningServer) -> None:
    with server.client() as client:
        led = client.get(INBOX, headers={"sec-fetch-site": "cross-site"}).text
        own = client.get(INBOX, headers={"sec-fetch-site": "same-origin"}).text
    assert f'http-equiv="refresh" content="0; url={INBOX}"' in led
    assert "http-equiv" not in own
