"""A server such as a reader of the docs would start, for all tests of a file."""

from collections.abc import Iterator

import pytest

from examples.stage import run_placet_server


@pytest.fixture(scope="module")
def live_server() -> Iterator[tuple[str, str]]:
    """Its address and a key."""
    with run_placet_server() as told:
        yield told
