"""The inbox: the list, and the way to a case and back."""

import asyncio
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from placet.embed import Placet
from tests.server.inboxes import INBOX, InboxPerson, find_link, get_last_event, list_case_ids, person
from tests.server.running import RunningServer, running


@pytest.fixture
def key(server: RunningServer) -> str:
    return server.create_key("ada", "inbox:all")


@pytest.fixture
def ada(server: RunningServer, key: str) -> Iterator[InboxPerson]:
    with person(server, key) as found:
        yield found


# The list


def test_looking_changes_nothing(server: RunningServer, client: httpx.Client, ada: InboxPerson) -> None:
    hitl = server.open(client)
    for path in (INBOX, f"{INBOX}?show=decided", f"{INBOX}/open", f"{INBOX}/sign-out", f"{INBOX}/sign-in"):
        assert ada.client.get(path, params={"case": hitl["case_id"]}).status_code == 200
        assert ada.client.head(path).status_code == 200
    assert ada.signed_in
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


def test_the_most_urgent_comes_first_and_tells_what_it_is(own_server: RunningServer) -> None:
    with (
        own_server.client(own_server.api_key) as agent,
        person(own_server, own_server.create_key("ada", "inbox:all")) as ada,
    ):
        later = own_server.open(
            agent, prompt="Water the <b>plants</b>?", timeout="3h", service="Garden", agent="Hose"
        )
        sooner = own_server.open(agent, prompt="Feed the cat?", timeout="1h")
        assert ada.list_cases() == [sooner["case_id"], later["case_id"]]
        text = ada.get_list()
    assert "Water the &lt;b&gt;plants&lt;/b&gt;?" in text
    for words in ("Confirmation · new", "from <bdi>acme</bdi>", "in 3 hours"):
        assert words in text
    assert later["review_url"].partition("token=")[2] not in text


def test_what_is_answered_overdue_or_withdrawn_waits_no_more_and_is_found_among_the_decided(
    own_server: RunningServer,
) -> None:
    with (
        own_server.client(own_server.api_key) as agent,
        person(own_server, own_server.create_key("ada", "inbox:all")) as ada,
    ):
        assert "Nothing waits for you" in ada.get_list()
        assert "Nothing was decided lately" in ada.get_list(show="decided")
        answered, withdrawn, overdue, open_still = (
            own_server.open(agent, timeout=time) for time in ("9h", "9h", "1h", "9h")
        )
        ada.page(answered["case_id"]).post("respond", {"action": "confirm"})
        own_server.advance(minutes=5)
        agent.post(
            withdrawn["cancel_url"]
            if "cancel_url" in withdrawn
            else f"/v1/reviews/{withdrawn['case_id']}/cancel"
        )
        own_server.advance(hours=1)
        assert ada.list_cases() == [open_still["case_id"]]
        own_server.sweep()
        assert ada.list_cases() == [open_still["case_id"]]
        assert ada.list_cases(show="decided") == [one["case_id"] for one in (overdue, withdrawn, answered)]
        text = ada.get_list(show="decided")
    for words in ("<b>Confirmed</b>", "<b>Withdrawn</b>", "<b>Nobody answered in time</b>", "<bdi>ada</bdi>"):
        assert words in text


def test_pages_follow_each_other_without_gaps(own_server: RunningServer) -> None:
    with (
        own_server.client(own_server.api_key) as agent,
        person(own_server, own_server.create_key("ada", "inbox:all")) as ada,
    ):
        asked = [own_server.open(agent, timeout=f"{60 + n % 7}m")["case_id"] for n in range(60)]
        seen, address = [], INBOX
        while True:
            text = ada.client.get(address).text
            seen.append(list_case_ids(text))
            found = find_link(text, "Show more")
            if found is None:
                break
            address = found
        assert [len(page) for page in seen] == [25, 25, 10]
        assert sorted(chain.from_iterable(seen)) == sorted(asked)
        assert find_link(text, "Back to the beginning") == INBOX


def test_questions_are_found_by_type_and_by_words(own_server: RunningServer) -> None:
    with (
        own_server.client(own_server.api_key) as agent,
        person(own_server, own_server.create_key("ada", "inbox:all")) as ada,
    ):
        cat = own_server.open(agent, prompt="Feed the cat?", service="Animals")
        own = own_server.open(agent, type="x-stroke", prompt="Stroke the Cat?", actions=["purr", "flee"])
        gate = own_server.open(
            agent, type="approval", prompt="Close the gate?", context={"artifact": "A gate"}
        )
        every = {one["case_id"] for one in (cat, own, gate)}
        assert set(ada.list_cases()) == every
        assert set(ada.list_cases(type="approval")) == {gate["case_id"]}
        assert set(ada.list_cases(type="other")) == {own["case_id"]}
        assert set(ada.list_cases(words="CAT the")) == {cat["case_id"], own["case_id"]}
        assert set(ada.list_cases(words="animals")) == {cat["case_id"]}
        assert set(ada.list_cases(words="cat", type="confirmation")) == {cat["case_id"]}
        assert "Nothing here fits what you look for." in ada.get_list(words='"><script>')
        for strange in (
            {"type": "nonsense"},
            {"after": "x"},
            {"after": "9" * 40},
            {"after": "-1.x"},
            {"show": "?"},
        ):
            assert set(ada.list_cases(**strange)) == every


def test_a_list_that_did_not_change_is_not_sent_again(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    first = ada.client.get(INBOX)
    again = ada.client.get(INBOX, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    server.open(client)
    changed = ada.client.get(INBOX, headers={"if-none-match": first.headers["etag"]})
    assert changed.status_code == 200


def test_pages_of_the_inbox_are_private(server: RunningServer, ada: InboxPerson) -> None:
    with server.client() as stranger:
        pages = [ada.client.get(INBOX), stranger.get(INBOX), stranger.post(f"{INBOX}/open")]
    for page in pages:
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-robots-tag"] == "noindex, nofollow"


# To a case and back


def test_a_case_is_opened_without_a_token_in_any_address_and_the_log_says_by_whom(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    page = ada.page(hitl["case_id"])
    assert [step.headers["location"] for step in page.response.history] == [f"/review/{hitl['case_id']}"]
    assert page.response.url.query == b""
    event = get_last_event(server, hitl["case_id"])
    assert (event.type, event.actor) == ("review.opened", "key:ada")
    assert find_link(page.text, "Back to the inbox") == INBOX


def test_an_answer_from_the_inbox_names_the_key_that_gave_it(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    done = ada.page(hitl["case_id"]).post("respond", {"action": "confirm"})
    assert "Answered by <bdi>ada</bdi>." in done.text
    assert find_link(done.text, "Back to the inbox") == INBOX
    poll = client.get(hitl["poll_url"]).json()
    assert poll["responded_by"] == {"name": "ada"}
    assert poll["submission_context"]["submitted_via"] == "inbox"
    event = get_last_event(server, hitl["case_id"])
    assert (event.type, event.actor) == ("review.completed", "key:ada")


def test_a_visitor_with_a_link_learns_nothing_of_the_inbox(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    with server.page(hitl) as page:
        assert INBOX not in page.text
        done = page.post("respond", {"action": "confirm"})
        assert INBOX not in done.text
    assert "responded_by" not in client.get(hitl["poll_url"]).json()


def test_a_page_is_opened_by_its_button_alone_and_not_by_its_address(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    first, second = server.open(client), server.open(client)
    ada.page(first["case_id"])
    assert ada.client.get(f"/review/{second['case_id']}").status_code == 401
    cookies = server.parts.replies.cookies
    admitted = ada.client.cookies[cookies.case(first["case_id"])]
    crossed = {
        cookies.inbox: ada.client.cookies[cookies.inbox],
        cookies.case(first["case_id"]): admitted,
        cookies.case(second["case_id"]): admitted,
    }
    with server.client(cookies=crossed) as thief:
        assert thief.get(f"/review/{first['case_id']}").status_code == 200
        assert thief.get(f"/review/{second['case_id']}").status_code == 401


def test_two_people_who_answer_are_told_who_was_first(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client)
    with (
        person(server, server.create_key("ben", "inbox:all")) as ben,
        person(server, server.create_key("cleo", "inbox:all")) as cleo,
    ):
        pages = ben.page(hitl["case_id"]), cleo.page(hitl["case_id"])
        pages[0].post("respond", {"action": "confirm"})
        beaten = pages[1].post("respond", {"action": "cancel"})
    assert beaten.response.status_code == 409
    assert find_link(beaten.text, "Back to the question") == f"/review/{hitl['case_id']}"
    assert client.get(hitl["poll_url"]).json()["responded_by"] == {"name": "ben"}


def test_a_closed_case_can_be_looked_at_again(
    server: RunningServer, client: httpx.Client, ada: InboxPerson
) -> None:
    hitl = server.open(client)
    with server.page(hitl) as page:
        page.post("respond", {"action": "confirm"})
    assert "Answered by someone with the link to it." in ada.page(hitl["case_id"]).text


def test_a_server_with_people_of_its_own_has_no_inbox(tmp_path: Path) -> None:
    async def served() -> list[str]:
        app = Placet(base_url="http://127.0.0.1:1", db=str(tmp_path / "a.db"), authenticate=lambda _: "acme")
        async with app.lifespan():
            return [route.path for route in (await app.parts()).router.routes if isinstance(route, Route)]

    paths = asyncio.run(served())
    assert "/review/{case_id}" in paths
    assert not [path for path in paths if path.startswith(INBOX)]


def test_below_a_path_and_behind_https_the_inbox_stays_there(tmp_path: Path) -> None:
    with running(tmp_path, base_url="https://app.example/placet") as below:
        key = below.create_key("ada", "inbox:all")
        with httpx.Client(base_url=f"http://127.0.0.1:{below.parts.settings.port}") as client:
            entered = client.post(f"{INBOX}/sign-in", data={"key": key})
    assert entered.headers["location"] == "/placet/inbox"
    assert {"Secure", "Path=/"} <= {part.strip() for part in entered.headers["set-cookie"].split(";")}


def test_the_words_of_every_language_are_there(server: RunningServer, key: str) -> None:
    titles = set()
    for code in ("en", "de", "es", "fr", "zh", "ar"):
        with person(server, key) as somebody:
            text = somebody.get_list(lang=code)
            assert f'lang="{code}"' in text
            titles.update(re.findall(r"<h1>([^<]+)</h1>", text))
    assert len(titles) == 6
