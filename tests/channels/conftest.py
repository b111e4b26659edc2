"""What the tests of every channel may ask for: a service with questions, and waits that take no time."""

from collections.abc import Iterator

import pytest

from placet.channels.platform_api import Sleep
from tests.server.running import RunningServer, running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("service"), present=True) as service:
        yield service


@pytest.fixture
def breaks() -> list[float]:
    """How long the channel would have waited, each time."""
    return []


@pytest.fixture
def sleep(breaks: list[float]) -> Sleep:
    """Waits in no time, and says in `breaks` for how long."""

    async def sleep(seconds: float) -> None:
        breaks.append(seconds)

    return sleep
