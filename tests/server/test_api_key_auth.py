"""How long the server relies on what it read about an API key."""

from datetime import timedelta

import pytest

from placet.bootstrap.storage import open_memory_store
from placet.desk.api_keys import create_key, revoke_key
from placet.errors import InvalidToken
from placet.server.api_key_auth import CACHE_FOR, ApiKeyAuthenticator
from placet.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("step", [CACHE_FOR, -timedelta(microseconds=1), -timedelta(hours=1)])
async def test_a_revoked_key_does_not_work_on_because_the_clock_was_set_back(step: timedelta) -> None:
    store, clock = open_memory_store(), FakeClock()
    secret = await create_key(store, "ada", now=clock())
    authenticate = ApiKeyAuthenticator(store=store, clock=clock)
    scope = {"headers": [(b"authorization", f"Bearer {secret}".encode())]}
    assert (await authenticate(scope)).name == "ada"
    (key,) = await store.list_api_keys()
    await revoke_key(store, key.id, clock())
    clock.advance(step)
    with pytest.raises(InvalidToken):
        await authenticate(scope)
