"""What the tests of the relay's API share."""

from collections.abc import AsyncIterator

import pytest

from tests.relay.api.policy_desk import PolicyDesk, policy_desk


@pytest.fixture
async def desk() -> AsyncIterator[PolicyDesk]:
    """An operator before an empty store."""
    async with policy_desk() as one:
        yield one
