"""Fixtures of all channel tests: a service with cases, and waits that take no time."""

from collections.abc import Iterator

import pytest

from placet.channels.platform_api import Sleep
from tests.server.running import RunningServer, running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("service"), present=True) as service:
        yield service


@pytest.fixture
def recorded_waits() -> list[float]:
    """How long the channel would have waited, each time."""
    return []


@pytest.fixture
def sleep(recorded_waits: list[float]) -> Sleep:
    """Waits in no time, and says in `breaks` for how long."""

    async def sleep(seconds: float) -> None:
        recorded_waits.append(seconds)

    return sleep
