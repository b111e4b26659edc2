"""Sessions at the inbox end on the server, cookies belong to one host, and failed sign-ins are logged."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from placet.desk.api_keys import create_key, revoke_key
from placet.server.inbox_sessions import FAILURES_LOGGED_PER_MINUTE
from placet.server.page_cookies import MAX_CASE_COOKIES
from tests.server.database_file import read_rows
from tests.server.inboxes import INBOX, InboxPerson, person
from tests.server.running import RunningServer, eventually, running


@pytest.fixture
def key(server: RunningServer) -> str:
    return server.create_key("ada", "inbox:all")


@pytest.fixture
def ada(server: RunningServer, key: str) -> Iterator[InboxPerson]:
    with person(server, key) as found:
        yield found


@pytest.fixture(scope="module")
def https_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose public URL is HTTPS; tests reach it as its proxy would."""
    with running(tmp_path_factory.mktemp("https"), base_url="https://placet.example") as server:
        yield server


def local_client(server: RunningServer) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{server.parts.settings.port}", timeout=60)


def sign_out(somebody: InboxPerson) -> httpx.Response:
    return somebody.client.post(f"{INBOX}/sign-out", data={"csrf": somebody.csrf()})


# Sessions


def test_a_copied_cookie_does_not_work_after_sign_out(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    page = ada.page(hitl["case_id"])
    copied, csrf = dict(ada.client.cookies), ada.csrf()
    with server.client(cookies=copied) as thief:
        assert "sign-out" in thief.get(INBOX).text
        assert sign_out(ada).status_code == 200
        assert "sign-out" not in thief.get(INBOX).text
        assert thief.get(page.response.url.path).status_code == 401
        for path in ("open", "sign-out"):
            refused = thief.post(f"{INBOX}/{path}", data={"csrf": csrf, "case": hitl["case_id"]})
            assert refused.status_code == 401
        respond = f"{page.response.url.path}/respond"
        assert thief.post(respond, data={**page.hidden_fields(), "action": "confirm"}).status_code == 401
    assert client.get(hitl["poll_url"]).json()["status"] == "opened"


def test_signing_out_in_one_browser_leaves_another_signed_in(server: RunningServer, key: str) -> None:
    with person(server, key) as at_work, person(server, key) as at_home:
        assert dict(at_work.client.cookies) != dict(at_home.client.cookies)
        sign_out(at_work)
        assert not at_work.signed_in
        assert at_home.signed_in


def test_signing_in_again_ends_the_session_before(server: RunningServer, key: str, ada: InboxPerson) -> None:
    with server.client(cookies=dict(ada.client.cookies)) as copied:
        ada.sign_in(key)
        assert ada.signed_in
        assert "sign-out" not in copied.get(INBOX).text


def test_a_session_survives_the_restart_of_the_server(tmp_path: Path) -> None:
    with running(tmp_path) as before, person(before, before.create_key("ada", "inbox")) as ada:
        cookies = dict(ada.client.cookies)
    with running(tmp_path) as after, after.client(cookies=cookies) as client:
        assert "sign-out" in client.get(INBOX).text


def test_signing_in_deletes_sessions_that_have_ended(own_server: RunningServer) -> None:
    key = own_server.create_key("ada", "inbox")
    with person(own_server, key), person(own_server, key):
        own_server.advance(hours=12)
        with person(own_server, key) as ada:
            assert ada.signed_in
    assert len(read_rows(own_server.parts.settings.db)["inbox_sessions"]) == 1


def test_the_event_stream_of_a_page_ends_after_sign_out(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    ada.page(hitl["case_id"])
    with (
        server.client(cookies=dict(ada.client.cookies)) as thief,
        thief.stream("GET", f"/review/{hitl['case_id']}/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        eventually(lambda: len(server.parts.streams) > 0)
        sign_out(ada)
        client.post(f"/v1/reviews/{hitl['case_id']}/cancel")
        assert not [line for line in lines if "cancelled" in line]


# Cookies


def collect_cookies(server: RunningServer) -> list[str]:
    """Return every Set-Cookie header that a reviewer meets."""
    with local_client(server) as agent, local_client(server) as browser:
        hitl = server.open(agent_with_key(agent, server))
        entered = browser.get(hitl["review_url"].removeprefix(server.url))
        path = f"/review/{hitl['case_id']}"
        session = entered.headers["set-cookie"].partition(";")[0]
        page = browser.get(f"{path}?lang=de", headers={"cookie": session})
        assert page.status_code == 200
        signed_in = browser.post(f"{INBOX}/sign-in", data={"key": server.create_key("ada", "inbox")})
        responses = (entered, page, signed_in)
        return [line for one in responses for line in one.headers.get_list("set-cookie")]


def agent_with_key(client: httpx.Client, server: RunningServer) -> httpx.Client:
    client.headers["authorization"] = f"Bearer {server.api_key}"
    return client


def test_every_cookie_on_https_belongs_to_this_host_alone(https_server: RunningServer) -> None:
    cookies = collect_cookies(https_server)
    names = {line.partition("=")[0].partition(".")[0] for line in cookies}
    assert names == {f"__Host-placet_{one}" for one in ("case", "lang", "style", "inbox")}
    for line in cookies:
        attributes = {part.strip().partition("=")[0].lower() for part in line.split(";")[1:]}
        assert {"secure", "httponly", "samesite", "path"} <= attributes
        assert "domain" not in attributes
        assert "; Path=/;" in f"{line};"


def test_cookies_on_loopback_are_those_that_browsers_accept_without_https(server: RunningServer) -> None:
    for line in collect_cookies(server):
        assert line.startswith("placet_")
        assert "secure" not in line.lower()


def test_servers_under_two_paths_of_one_host_do_not_share_cookies(tmp_path: Path) -> None:
    names = set()
    for path in ("", "/a", "/b"):
        (tmp_path / f"x{path}").mkdir(parents=True)
        with running(tmp_path / f"x{path}", base_url=f"https://placet.example{path}") as server:
            names.add(server.parts.replies.cookies.inbox)
    assert len(names) == 3


def test_a_cookie_without_the_prefix_is_not_read_on_https(https_server: RunningServer) -> None:
    key = https_server.create_key("ada", "inbox")
    with local_client(https_server) as client:
        entered = client.post(f"{INBOX}/sign-in", data={"key": key})
        name, _, rest = entered.headers["set-cookie"].partition("=")
        token = rest.partition(";")[0]
        assert "sign-out" in client.get(INBOX, headers={"cookie": f"{name}={token}"}).text
        planted = {"cookie": f"{name.removeprefix('__Host-')}={token}"}
        assert "sign-out" not in client.get(INBOX, headers=planted).text


def test_a_browser_keeps_the_newest_cases_open(server: RunningServer, client: httpx.Client) -> None:
    opened = [server.open(client) for _ in range(MAX_CASE_COOKIES + 3)]
    with server.client(follow_redirects=True) as browser:
        for hitl in opened:
            assert browser.get(hitl["review_url"]).status_code == 200
        kept = [name for name in browser.cookies if name.startswith("placet_case")]
        assert len(kept) == MAX_CASE_COOKIES
        assert browser.get(f"/review/{opened[-1]['case_id']}").status_code == 200
        assert browser.get(f"/review/{opened[0]['case_id']}").status_code == 401
        assert browser.get(opened[0]["review_url"]).status_code == 200


# Forms of other sites

FOREIGN = (
    "https://evil.example",
    "null",
    "http://127.0.0.1:1",
    "http://127.0.0.1",
    "",
    "https://placet.example.evil",
)


@pytest.mark.parametrize("origin", FOREIGN)
def test_sign_in_from_another_origin_is_refused_without_sec_fetch_site(
    server: RunningServer, key: str, origin: str
) -> None:
    with server.client() as victim:
        refused = victim.post(f"{INBOX}/sign-in", data={"key": key}, headers={"origin": origin})
        assert refused.status_code == 401
        assert "set-cookie" not in refused.headers or "inbox" not in refused.headers["set-cookie"]


def test_sign_in_from_the_own_page_works_in_old_and_new_browsers(server: RunningServer, key: str) -> None:
    for headers in (
        {"origin": server.url},
        {"origin": "null", "sec-fetch-site": "same-origin"},
        {"origin": server.url, "sec-fetch-site": "same-origin"},
        {},
    ):
        with server.client() as browser:
            assert browser.post(f"{INBOX}/sign-in", data={"key": key}, headers=headers).status_code == 303


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "SAME-ORIGIN", "same-origin, cross-site"])
def test_sec_fetch_site_counts_even_if_the_origin_is_right(
    server: RunningServer, key: str, site: str
) -> None:
    with server.client() as victim:
        headers = {"origin": server.url, "sec-fetch-site": site}
        assert victim.post(f"{INBOX}/sign-in", data={"key": key}, headers=headers).status_code == 401


def test_no_form_is_taken_from_another_origin(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    foreign = {"origin": "https://evil.example"}
    for path in ("open", "sign-out"):
        data = {"csrf": ada.csrf(), "case": hitl["case_id"]}
        assert ada.client.post(f"{INBOX}/{path}", data=data, headers=foreign).status_code == 401
    page = ada.page(hitl["case_id"])
    answer = {**page.hidden_fields(), "action": "confirm"}
    respond = f"{page.response.url.path}/respond"
    assert ada.client.post(respond, data=answer, headers=foreign).status_code == 401
    assert client.get(hitl["poll_url"]).json()["status"] == "opened"
    # Old browsers hide the origin of our pages, which send no referrer; the CSRF token decides.
    assert ada.client.post(respond, data=answer, headers={"origin": "null"}).status_code == 200
    assert client.get(hitl["poll_url"]).json()["status"] == "completed"


# Failed attempts


def test_failed_sign_ins_are_logged_with_their_reason_and_without_the_key(
    own_server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    store, now = own_server.parts.store, own_server.clock()
    ending = create_key(store, "cleo", now=now, scopes=("inbox",), expires_for=timedelta(minutes=1))
    keys = {
        "unknown_key address=127.0.0.1": "placet_" + "x" * 43,
        "no_key address=127.0.0.1": "",
        "no_inbox_scope address=127.0.0.1 key=program": own_server.create_key("program"),
        "revoked_key address=127.0.0.1 key=ben": own_server.create_key("ben", "inbox"),
        "expired_key address=127.0.0.1 key=cleo": own_server.run(ending),
    }
    revoked = next(one.id for one in own_server.run(store.list_api_keys()) if one.name == "ben")
    own_server.run(revoke_key(store, revoked, now))
    own_server.advance(minutes=2)
    with person(own_server) as somebody:
        for entered in keys.values():
            assert somebody.sign_in(entered).status_code in (401, 403)
        somebody.client.headers["origin"] = "https://evil.example"
        somebody.sign_in("placet_x")
    failures = [line for line in caplog.messages if line.startswith("inbox_sign_in_failed")]
    expected = [*keys, "foreign_site address=127.0.0.1"]
    assert failures == [f"inbox_sign_in_failed reason={one}" for one in expected]
    assert not [entered for entered in keys.values() if entered and entered in caplog.text]


def test_a_flood_of_failed_sign_ins_does_not_fill_the_log(
    own_server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with person(own_server) as guesser:
        for number in range(2 * FAILURES_LOGGED_PER_MINUTE):
            guesser.sign_in(f"placet_{number}\r\ninbox_signed_in key=admin")
    failures = [line for line in caplog.messages if line.startswith("inbox_sign_in_failed")]
    assert FAILURES_LOGGED_PER_MINUTE <= len(failures) < 2 * FAILURES_LOGGED_PER_MINUTE
    assert "key=admin" not in caplog.text
