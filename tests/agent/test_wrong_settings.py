"""A setting of the wrong type is refused when the agent is built: later, a service has opened a case."""

from datetime import timedelta
from typing import Any

import pytest

from placet.agent import Agent, AsyncAgent, Notice
from placet.errors import SettingsError


async def tell(notice: Notice) -> None:
    """Ignore it."""


WRONG: list[tuple[str, Any]] = [
    ("trusted", "https://reviews.example"),
    ("trusted", 7),
    ("trusted", ["reviews.example"]),
    ("trusted", ["ftp://reviews.example"]),
    ("trusted", [None]),
    ("interval_s", "5"),
    ("interval_s", timedelta(seconds=5)),
    ("interval_s", True),
    ("max_wait", 5),
    ("max_wait", "10m"),
    ("pending", "cases.db"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_setting_of_the_wrong_type_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{name}(:| must)"):
        AsyncAgent(tell=tell, **{name: value})
    with pytest.raises(SettingsError, match=f"^{name}(:| must)"):
        Agent(tell=lambda notice: None, **{name: value})
