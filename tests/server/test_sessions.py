"""Case sessions: signed cookies that end with time, with their link, and with any change to them."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from placet.cases.case import Case
from placet.errors import SessionEnded
from placet.server.case_sessions import SESSION_LIFETIME, CaseSessions
from placet.server.csrf import require_csrf_token
from placet.testing.clock import FakeClock
from placet.testing.samples import sample_creation
from tests.server.running import RunningServer

SECRET = "5a" * 32
NOW = FakeClock()()


@pytest.fixture
def sessions() -> CaseSessions:
    return CaseSessions(SECRET)


def make_case(case_id: str = "review_a", *links: str) -> Case:
    return replace(sample_creation().case, id=case_id, review_digests=links or ("a" * 64, "b" * 64))


def test_a_cookie_is_read_back_by_the_server_that_made_it(sessions: CaseSessions) -> None:
    case = make_case()
    session = sessions.read(case, sessions.begin(case.id, "b" * 64, NOW), NOW)
    assert session is not None
    assert (session.case_id, session.link) == (case.id, "b" * 64)
    assert session.actor == "link:bbbbbbbb"
    require_csrf_token(session, session.csrf)


def test_a_session_ends_after_half_a_day(sessions: CaseSessions) -> None:
    case = make_case()
    cookie = sessions.begin(case.id, "a" * 64, NOW)
    assert sessions.read(case, cookie, NOW + SESSION_LIFETIME - timedelta(seconds=1)) is not None
    assert sessions.read(case, cookie, NOW + SESSION_LIFETIME) is None


def test_a_session_is_for_one_case_one_link_and_one_server(sessions: CaseSessions) -> None:
    case = make_case()
    cookie = sessions.begin(case.id, "a" * 64, NOW)
    assert sessions.read(make_case("review_b"), cookie, NOW) is None
    assert sessions.read(make_case(case.id, "c" * 64), cookie, NOW) is None
    assert CaseSessions("6b" * 32).read(case, cookie, NOW) is None


@pytest.mark.parametrize("place", range(0, 108, 6))
def test_no_part_of_a_cookie_can_be_changed(sessions: CaseSessions, place: int) -> None:
    case = make_case()
    cookie = sessions.begin(case.id, "a" * 64, NOW)
    changed = cookie[:place] + ("0" if cookie[place] != "0" else "1") + cookie[place + 1 :]
    assert sessions.read(case, changed, NOW) is None


@pytest.mark.parametrize(
    "cookie", [None, "", ".", "..", "a.b.c", "a.1.b.c", "a.١٢.b", "a." + "9" * 400 + ".b", "\ud800.1.x"]
)
def test_malformed_cookie_is_no_session(sessions: CaseSessions, cookie: str | None) -> None:
    assert sessions.read(make_case(), cookie, NOW) is None


@pytest.mark.parametrize("presented", [None, "", "x", "é", "\ud800", "0" * 10_000])
def test_a_form_without_the_token_of_the_session_is_refused(
    sessions: CaseSessions, presented: str | None
) -> None:
    case = make_case()
    session = sessions.read(case, sessions.begin(case.id, "a" * 64, NOW), NOW)
    assert session is not None
    with pytest.raises(SessionEnded):
        require_csrf_token(session, presented)


def test_two_sessions_have_different_csrf_tokens(sessions: CaseSessions) -> None:
    case = make_case()
    one = sessions.read(case, sessions.begin(case.id, "a" * 64, NOW), NOW)
    other = sessions.read(case, sessions.begin(case.id, "b" * 64, NOW), NOW)
    assert one is not None
    assert other is not None
    with pytest.raises(SessionEnded):
        require_csrf_token(one, other.csrf)


def test_a_page_left_open_overnight_asks_for_the_link_again_and_keeps_what_was_saved(
    server: RunningServer, client: httpx.Client
) -> None:
    form = {"fields": [{"key": key, "label": key, "type": "text", "required": True} for key in ("a", "b")]}
    hitl: dict[str, Any] = server.open(client, type="input", timeout="3d", context={"form": form})
    with server.page(hitl) as page:
        page.post("respond", {"action": "submit", "asked": ["a", "b"], "field.a": "first answer"})
        server.advance(hours=13)
        ended = page.post("respond", {"action": "submit", "field.a": "x", "field.b": "y"})
        assert ended.response.status_code == 401
        assert "Please open your link again" in ended.text
        assert page.client.get(f"/review/{hitl['case_id']}").status_code == 401
    with server.page(hitl) as again:
        assert again.response.status_code == 200
        assert "first answer" in again.text
    assert client.get(hitl["poll_url"]).json()["status"] == "in_progress"


def test_a_session_survives_the_servers_restart_because_its_secret_is_kept(
    server: RunningServer,
) -> None:
    kept = server.run(server.parts.store.get_or_create_secret("sessions", "00" * 32))
    assert kept != "00" * 32
    assert kept == server.run(server.parts.store.get_or_create_secret("sessions", "11" * 32))
