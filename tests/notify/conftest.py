"""A server that notifies people, new for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.notify.notified_people import NotifiedPeople, notified_people


@pytest.fixture
async def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NotifiedPeople]:
    async with notified_people(tmp_path, monkeypatch) as people:
        yield people
