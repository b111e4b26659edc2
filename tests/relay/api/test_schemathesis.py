"""Whatever the description of the relay's API allows or forbids, the server answers as described."""

from collections.abc import Iterator
from itertools import count

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import run_raw_agent
from tests.relay.relay_document import load_relay_document
from tests.relay.sample_records import SampleRecords
from tests.server.running import RunningServer, running

CONFIG = schemathesis.Config.from_dict(
    {
        # A draft can fit its schema and still be one that this server cannot follow.
        "checks": {"positive_data_acceptance": {"enabled": False}},
        "generation": {"deterministic": True, "database": "none", "with-security-parameters": False},
    }
)
API = schemathesis.openapi.from_dict(load_relay_document(), config=CONFIG)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with run_raw_agent() as agent:
        relay = RelaySettings(
            agents={"ours": AgentSettings(url=agent.url)},
            callers={"caller": CallerSettings(agents=("ours",))},
        )
        with running(tmp_path_factory.mktemp("relay"), relay=relay) as found:
            yield found


@pytest.fixture(scope="module")
def admin(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.create_key("root", "admin")) as client:
        yield client


@pytest.fixture(scope="module")
def sample_records(server: RunningServer, admin: httpx.Client) -> SampleRecords:
    return SampleRecords(server, admin)


@pytest.fixture(scope="module")
def example_numbers() -> Iterator[int]:
    return count()


@API.parametrize()
@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_relays_api_keeps_to_its_description(
    case: schemathesis.Case,
    server: RunningServer,
    admin: httpx.Client,
    sample_records: SampleRecords,
    example_numbers: Iterator[int],
) -> None:
    if case.path_parameters and next(example_numbers) % 2:  # else they would only ever hear 404
        made = sample_records.made_for(case.path)
        case.path_parameters.update({name: made[name] for name in case.path_parameters})
    case.call_and_validate(base_url=server.url, headers={"Authorization": admin.headers["Authorization"]})
