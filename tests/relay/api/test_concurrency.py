"""Turns: so many of one tenant, so many of all, and each is given back."""

from contextlib import ExitStack

import pytest

from placet.errors import RateLimited
from placet.relay.api.concurrency import ConcurrencyLimit


def test_a_tenant_has_its_turns_and_leaves_others_theirs():
    turns = ConcurrencyLimit(each=2, together=3, refusal="Wait.", retry_after=1)
    with ExitStack() as taken:
        taken.enter_context(turns.take("north"))
        taken.enter_context(turns.take("north"))
        with pytest.raises(RateLimited, match="Wait"):
            taken.enter_context(turns.take("north"))
        taken.enter_context(turns.take("south"))
        with pytest.raises(RateLimited):
            taken.enter_context(turns.take("east"))
    for _ in range(3):
        with turns.take("north"), turns.take("north"), turns.take("east"):
            pass


def test_a_turn_that_ends_badly_is_given_back_too():
    turns = ConcurrencyLimit(each=1, together=1, refusal="Wait.", retry_after=1)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), turns.take("north"):
            raise ValueError("broken")
