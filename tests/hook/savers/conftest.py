"""A folder that syncs at no cost, for tests of what a saver does and not of how its disk fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook.places import quick_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        yield made
