"""Databases of the tests of stores."""

from collections.abc import Iterator

import pytest

from tests.stores.postgres_database import running_database


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with running_database() as url:
        yield url
