"""One agent and one server for each file."""

from collections.abc import Iterator

import pytest

from placet.http.listening import bind
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import run_holding_server
from tests.server.running import RunningServer


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with run_holding_server(tmp_path_factory.mktemp("relay"), {"errands": agent.url}) as found:
        yield found


@pytest.fixture
def port() -> int:
    """A port on which nobody listens."""
    listener = bind("127.0.0.1", 0)
    found: int = listener.getsockname()[1]
    listener.close()
    return found
