"""An agent whose clock is wrong: whether a case is over is a matter of the service's clock."""

from datetime import datetime, timedelta
from email.utils import format_datetime

import pytest

from placet.agent.flow import OVERDUE_FOR, Flow, Wait
from placet.errors import CaseLost, CredentialsRefused
from tests.agent.test_flow import CASE, NOW, body

AHEAD = timedelta(hours=3)  # as where a computer takes local time for UTC; the case is open for an hour


def here(moment: datetime) -> datetime:
    """What the agent's clock says at a moment."""
    return moment + AHEAD


def dated(moment: datetime) -> dict[str, str]:
    return {"date": format_datetime(moment, usegmt=True)}


@pytest.fixture
def following() -> Flow:
    return Flow(CASE, now=here(NOW), dice=lambda: 0.0)


def test_a_case_that_is_open_is_followed_though_our_clock_says_that_it_is_over(following: Flow) -> None:
    for minutes in (0, 20, 40, 59):
        moment = NOW + timedelta(minutes=minutes)
        following.report_response(200, dated(moment), body("pending"), here(moment))
        following.report_unreachable("gone", here(moment))
        assert isinstance(following.step(here(moment)), Wait)


def test_a_case_that_the_service_never_ends_is_given_up_by_the_clock_of_the_service(following: Flow) -> None:
    over = here(NOW) + OVERDUE_FOR
    following.report_response(200, dated(over - timedelta(seconds=1)), body("pending"), here(over))
    with pytest.raises(CaseLost):
        following.report_response(200, dated(over), body("pending"), here(over))


def test_credentials_that_are_refused_while_it_is_open_lose_nothing(following: Flow) -> None:
    with pytest.raises(CredentialsRefused):
        following.report_response(401, dated(NOW), b"", here(NOW))


@pytest.mark.parametrize("date", ["", "now", "Mon, 01 Jan 2035 00:00:00 GMT"])
def test_a_service_that_does_not_know_the_time_changes_nothing(following: Flow, date: str) -> None:
    with pytest.raises(CaseLost):
        following.report_response(200, {"date": date}, body("pending"), here(NOW) + OVERDUE_FOR)
