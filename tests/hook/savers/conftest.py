"""A folder that syncs at no cost, for tests of what a saver does and not of how its disk fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.testing.memory_folder import make_memory_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with make_memory_folder() as made:
        yield made
