"""Turns: so many of one tenant, so many of all, and each is given back."""

from contextlib import ExitStack

import pytest

from placet.errors import RateLimited
from placet.relay.transports.admin_api.evaluation import ConcurrencyLimit


def test_concurrency_limit_is_per_tenant():
    turns = ConcurrencyLimit(per_tenant=2, total=3, refusal="Wait.", retry_after=1)
    with ExitStack() as taken:
        taken.enter_context(turns.acquire("north"))
        taken.enter_context(turns.acquire("north"))
        with pytest.raises(RateLimited, match="Wait"):
            taken.enter_context(turns.acquire("north"))
        taken.enter_context(turns.acquire("south"))
        with pytest.raises(RateLimited):
            taken.enter_context(turns.acquire("east"))
    for _ in range(3):
        with turns.acquire("north"), turns.acquire("north"), turns.acquire("east"):
            pass


def test_failed_call_releases_its_slot():
    turns = ConcurrencyLimit(per_tenant=1, total=1, refusal="Wait.", retry_after=1)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), turns.acquire("north"):
            raise ValueError("broken")
