"""Attacks and race conditions at the inbox."""

import html
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from msgspec.structs import replace

from placet.cases.tokens import digest_token
from placet.desk.api_keys import revoke_key
from placet.ports.key_store import ApiKey
from placet.server.inbox_pages import SIGN_INS_PER_MINUTE
from placet.testing.samples import sample_api_key
from tests.server.inboxes import INBOX, InboxPerson, get_last_event, list_case_ids, person
from tests.server.running import RunningServer, running
from tests.server.test_spec_verification import OneProofVerifier, policy
from tests.waiting import PATIENCE_S

POSTED = ("respond", "opened", "hand-back", "pass-on", "revoke", "language", "draft")


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of this test's own."""
    with running(tmp_path, verifier=OneProofVerifier()) as server:
        yield server


@pytest.fixture
def agent(own_server: RunningServer) -> Iterator[httpx.Client]:
    with own_server.client(own_server.api_key) as client:
        yield client


@pytest.fixture
def key(own_server: RunningServer) -> str:
    return own_server.create_key("ada", "inbox:all")


@pytest.fixture
def ada(own_server: RunningServer, key: str) -> Iterator[InboxPerson]:
    with person(own_server, key) as found:
        yield found


def key_of(server: RunningServer, name: str) -> ApiKey:
    return next(one for one in server.run(server.parts.store.list_api_keys()) if one.name == name)


def revoke(server: RunningServer, name: str) -> None:
    server.run(revoke_key(server.parts.store, key_of(server, name).id, server.clock()))


def cookies_for(somebody: InboxPerson, path: str) -> dict[str, str]:
    """What their browser sends to this path."""
    return {one.name: one.value or "" for one in somebody.client.cookies.jar if path.startswith(one.path)}


def find_heading(text: str) -> str:
    found = re.search(r"<h1>([^<]+)</h1>", text)
    return found[1] if found else ""


class SlowPost:
    """A form whose fields are sent only once the server waits for them."""

    def __init__(self, url: str, cookies: dict[str, str]) -> None:
        parts = urlsplit(url)
        place = (parts.hostname or "", parts.port or 0)
        self._socket = socket.create_connection(place, timeout=PATIENCE_S)
        self._path, self._host = parts.path, parts.netloc
        self._cookies = "; ".join(f"{name}={value}" for name, value in cookies.items())

    def begin(self, fields: dict[str, str]) -> None:
        """Send the head, and wait until the server asks for the rest."""
        self._body = urlencode(fields).encode()
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: {self._host}\r\nConnection: close\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(self._body)}\r\n"
            f"Cookie: {self._cookies}\r\nExpect: 100-continue\r\n\r\n"
        )
        self._socket.sendall(head.encode())
        assert self._socket.recv(65_536).startswith(b"HTTP/1.1 100")

    def end(self) -> int:
        """Send the rest; the status of the answer."""
        with self._socket:
            self._socket.sendall(self._body)
            answer = b""
            while part := self._socket.recv(65_536):
                answer += part
        return int(answer.split()[1])


# Keys that end, and sessions that are not one's own


def test_an_answer_that_was_on_its_way_when_the_key_was_revoked_does_not_count(
    own_server: RunningServer, agent: httpx.Client, ada: InboxPerson
) -> None:
    hitl = own_server.open(agent)
    page = ada.page(hitl["case_id"])
    path = f"/review/{hitl['case_id']}/respond"
    post = SlowPost(f"{own_server.url}{path}", cookies_for(ada, path))
    post.begin({**page.hidden_fields(), "action": "confirm"})
    revoke(own_server, "ada")
    assert post.end() == 401
    assert agent.get(hitl["poll_url"]).json()["status"] == "opened"


def test_a_question_is_not_opened_by_a_press_that_was_on_its_way_when_the_key_was_revoked(
    own_server: RunningServer, agent: httpx.Client, ada: InboxPerson
) -> None:
    hitl = own_server.open(agent)
    post = SlowPost(f"{own_server.url}{INBOX}/open", cookies_for(ada, INBOX))
    post.begin({"csrf": ada.csrf(), "case": hitl["case_id"]})
    revoke(own_server, "ada")
    assert post.end() == 401
    assert agent.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.parametrize("lost", ["revoked", "narrowed", "signed out"])
def test_no_address_of_an_open_page_serves_a_person_who_may_no_longer_see_the_case(
    own_server: RunningServer, agent: httpx.Client, ada: InboxPerson, lost: str
) -> None:
    hitl = own_server.open(agent)
    page = ada.page(hitl["case_id"])
    match lost:
        case "revoked":
            revoke(own_server, "ada")
        case "narrowed":
            own_server.run(
                own_server.parts.store.save_api_key(replace(key_of(own_server, "ada"), scopes=("inbox",)))
            )
        case _:
            ada.client.post(f"{INBOX}/sign-out", data={"csrf": ada.csrf()})
    before = get_last_event(own_server, hitl["case_id"])
    address = f"/review/{hitl['case_id']}"
    assert ada.client.get(address).status_code == 401
    assert ada.client.get(f"{address}/events").status_code == 401
    for verb in POSTED:
        assert page.post(verb, {"action": "confirm", "grant": "x"}).response.status_code == 401, verb
    assert ada.client.post(f"{address}/respond", json={"action": "confirm"}).status_code == 401
    assert get_last_event(own_server, hitl["case_id"]) == before


def test_the_page_of_one_session_is_none_of_another(
    own_server: RunningServer, agent: httpx.Client, ada: InboxPerson, key: str
) -> None:
    hitl = own_server.open(agent)
    path = f"/review/{hitl['case_id']}"
    ada.page(hitl["case_id"])
    name = own_server.parts.replies.cookies.case(hitl["case_id"])
    admitted = cookies_for(ada, path)[name]
    own_server.advance(seconds=1)
    for other in (key, own_server.create_key("ben", "inbox:all")):
        with person(own_server, other) as somebody:
            theirs = cookies_for(somebody, path)
        with own_server.client(cookies={**theirs, name: admitted}) as thief:
            assert thief.get(path).status_code == 401
            assert "sign-out" in thief.get(INBOX).text


def test_another_servers_cookie_signs_nobody_in(
    own_server: RunningServer, ada: InboxPerson, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with running(tmp_path / "other") as other:
        other.run(other.parts.store.save_api_key(key_of(own_server, "ada")))
        with other.client(cookies=cookies_for(ada, INBOX)) as client:
            assert 'name="key"' in client.get(INBOX).text


@pytest.mark.parametrize(
    "cookie",
    [b"\xff\xfe.1.x", "é.ü.ö".encode(), b"\xed\xa0\x80", b"a" * 30_000, b"%00", b'"', b"..", b"." * 5_000],
    ids=range(8),
)
def test_a_cookie_of_nonsense_is_no_cookie(
    own_server: RunningServer, agent: httpx.Client, cookie: bytes
) -> None:
    hitl = own_server.open(agent)
    with own_server.client() as client:
        sent = {b"cookie": b"placet_inbox=" + cookie}
        assert 'name="key"' in client.get(INBOX, headers=sent).text
        name = f"placet_case.{hitl['case_id']}=".encode()
        for claim in (name, name + b"inbox."):
            both = {b"cookie": claim + cookie + b"; placet_inbox=" + cookie}
            assert client.get(f"/review/{hitl['case_id']}", headers=both).status_code == 401


def test_a_key_under_a_name_of_the_relays_lists_no_held_messages(own_server: RunningServer) -> None:
    """No such key can be made here; a store may hold one from elsewhere."""
    secret, scopes = "placet_from_elsewhere", ("inbox", "cases:write")
    made = sample_api_key("relay:default", digest=digest_token(secret), scopes=scopes)
    own_server.run(own_server.parts.store.save_api_key(made))
    with own_server.client(secret) as relay, person(own_server, secret) as somebody:
        hitl = own_server.open(relay)
        assert somebody.list_cases() == []
        assert somebody.open(hitl["case_id"]).status_code == 404


# People who mean well


def test_a_key_signs_its_holder_in_while_others_guess_from_the_same_place(
    own_server: RunningServer, key: str
) -> None:
    with person(own_server) as somebody:
        tries = (somebody.sign_in("placet_guess") for _ in range(100 * SIGN_INS_PER_MINUTE))
        assert any(answer.status_code == 429 for answer in tries)
        assert somebody.sign_in(key).status_code == 200
        assert somebody.signed_in


def test_a_list_that_stayed_open_is_sent_anew_after_another_sign_in(
    own_server: RunningServer, agent: httpx.Client, ada: InboxPerson, key: str
) -> None:
    hitl = own_server.open(agent)
    shown = ada.client.get(INBOX)
    own_server.advance(minutes=1)
    ada.sign_in(key)
    again = ada.client.get(INBOX, headers={"if-none-match": shown.headers["etag"]})
    assert again.status_code == 200
    assert list_case_ids(again.text) == [hitl["case_id"]]


def test_another_language_shows_the_same_part_of_the_list(
    own_server: RunningServer, ada: InboxPerson
) -> None:
    text = ada.get_list(show="decided", type="approval", words="50% & more")
    [address] = re.findall(r'href="([^"]+)" lang="de"', text)
    german = ada.client.get(html.unescape(address)).text
    assert 'lang="de"' in german
    assert 'name="show" value="decided"' in german
    assert 'value="50% &amp; more"' in german
    assert '<option value="approval" selected>' in german


@pytest.mark.parametrize("paths", [["browser_submit"], ["inline_submit", "browser_submit"]])
def test_the_inbox_is_no_way_around_a_proof_and_says_what_is_missing(
    own_server: RunningServer, agent: httpx.Client, ada: InboxPerson, paths: list[str]
) -> None:
    hitl = own_server.open(agent, inline_actions=["confirm"], verification_policy=policy(required_for=paths))
    with own_server.page(hitl) as by_link:
        for page in (by_link, ada.page(hitl["case_id"])):
            refused = page.post("respond", {"action": "confirm"})
            assert refused.response.status_code == 403
            assert find_heading(refused.text) == "This answer needs a proof"
            assert "Nothing was recorded." in refused.text
    assert agent.get(hitl["poll_url"]).json()["status"] == "opened"


def test_a_name_that_a_form_claims_is_nobodys(
    own_server: RunningServer, agent: httpx.Client, ada: InboxPerson
) -> None:
    hitl = own_server.open(agent)
    claims = {"responded_by": "boss", "submitted_by": "boss", "name": "boss", "key_name": "boss"}
    ada.page(hitl["case_id"]).post("respond", {"action": "confirm", **claims})
    poll = agent.get(hitl["poll_url"])
    assert poll.json().get("responded_by", {"name": "ada"}) == {"name": "ada"}
    assert "boss" not in poll.text


STRANGE = (
    *(f"after={place}" for place in ("99999999999999999.x", f"{'9' * 40}.x", "0.%00", "-1.x", "%D9%A3.x")),
    *(f"words={words}" for words in ("%25_%27%22--%3B", "((((%5B", "a" * 9_000, "%00", "%ff%ED%A0%80")),
    *("type=%00", "show=decided&after=99999999999999999.x", "lang=xx%0d%0aa:b"),
)


@pytest.mark.parametrize("query", STRANGE, ids=range(len(STRANGE)))
def test_a_strange_address_shows_a_list(
    own_server: RunningServer, agent: httpx.Client, ada: InboxPerson, query: str
) -> None:
    own_server.open(agent)
    response = ada.client.get(f"{INBOX}?{query}")
    assert response.status_code == 200
    assert "sign-out" in response.text
