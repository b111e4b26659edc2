"""What the tests of the relay's API share."""

from collections.abc import AsyncIterator

import pytest

from tests.relay.api.policy_api_client import PolicyApiClient, open_policy_api


@pytest.fixture
async def policy_api() -> AsyncIterator[PolicyApiClient]:
    """An operator before an empty store."""
    async with open_policy_api() as one:
        yield one
