"""An agent whose clock is wrong uses the service's clock to decide whether a case is overdue."""

from datetime import datetime, timedelta
from email.utils import format_datetime

import pytest

from placet.agent.flow import EXPIRY_GRACE, Flow, SleepUntil
from placet.errors import CaseLost, CredentialsRefused
from tests.agent.test_flow import CASE, NOW, poll_body

AHEAD = timedelta(hours=3)  # as where a computer takes local time for UTC; the case is open for an hour


def agent_time(moment: datetime) -> datetime:
    """What the agent's clock says at a moment."""
    return moment + AHEAD


def date_header(moment: datetime) -> dict[str, str]:
    return {"date": format_datetime(moment, usegmt=True)}


@pytest.fixture
def following() -> Flow:
    return Flow(CASE, now=agent_time(NOW), dice=lambda: 0.0)


def test_open_case_is_followed_although_the_agents_clock_says_expired(following: Flow) -> None:
    for minutes in (0, 20, 40, 59):
        moment = NOW + timedelta(minutes=minutes)
        following.report_response(200, date_header(moment), poll_body("pending"), agent_time(moment))
        following.report_unreachable("gone", agent_time(moment))
        assert isinstance(following.step(agent_time(moment)), SleepUntil)


def test_overdue_case_is_given_up_by_the_services_clock(following: Flow) -> None:
    over = agent_time(NOW) + EXPIRY_GRACE
    following.report_response(
        200, date_header(over - timedelta(seconds=1)), poll_body("pending"), agent_time(over)
    )
    with pytest.raises(CaseLost):
        following.report_response(200, date_header(over), poll_body("pending"), agent_time(over))


def test_refused_credentials_do_not_lose_an_open_case(following: Flow) -> None:
    with pytest.raises(CredentialsRefused):
        following.report_response(401, date_header(NOW), b"", agent_time(NOW))


@pytest.mark.parametrize("date", ["", "now", "Mon, 01 Jan 2035 00:00:00 GMT"])
def test_response_without_a_valid_date_changes_nothing(following: Flow, date: str) -> None:
    with pytest.raises(CaseLost):
        following.report_response(200, {"date": date}, poll_body("pending"), agent_time(NOW) + EXPIRY_GRACE)
