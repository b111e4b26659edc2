"""Peers of the relay that one test file shares: agents, and a receiver of notifications."""

from collections.abc import Iterator

import pytest

from tests.relay.a2a.raw_agent import RawAgent, run_raw_agent
from tests.relay.a2a.sdk_agent import SdkAgent, run_sdk_agent
from tests.relay.push.receiver import Receiver, run_receiver


@pytest.fixture(scope="module")
def agent() -> Iterator[SdkAgent]:
    with run_sdk_agent() as found:
        yield found


@pytest.fixture(scope="module")
def raw_agent() -> Iterator[RawAgent]:
    with run_raw_agent() as found:
        yield found


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with run_receiver() as found:
        yield found
