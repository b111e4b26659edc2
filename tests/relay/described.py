"""The relay's API as it describes itself, without a server."""

import asyncio
from typing import Any

import msgspec

from assent.bootstrap import build
from assent.relay.api.route import ApiRoute
from assent.relay.registered import RelaySettings
from assent.server.openapi import openapi_with_relay
from assent.settings import Settings
from assent.stores.memory import MemoryStore


def addresses() -> tuple[ApiRoute, ...]:
    """Every address of the relay's API."""

    async def wired() -> tuple[ApiRoute, ...]:
        parts = await build(Settings(relay=RelaySettings(enabled=True), signing="none"), store=MemoryStore())
        assert parts.relay is not None
        found = parts.relay.api.addresses
        await parts.stop()
        return found

    return asyncio.run(wired())


def relay_document() -> dict[str, Any]:
    """The description of the relay's own API, and of nothing else."""
    whole = openapi_with_relay("http://127.0.0.1", addresses())
    paths = {path: item for path, item in whole["paths"].items() if path.startswith(("/relay/", "/audit/"))}
    own = {path: item for path, item in paths.items() if not path.startswith("/relay/v1/agents/")}
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({**whole, "paths": own}))
    return found
