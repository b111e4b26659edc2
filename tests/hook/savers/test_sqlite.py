"""SqliteSaver keeps the contract."""

from functools import partial
from pathlib import Path

import pytest

from assent.hook.savers.sqlite import SqliteSaver
from assent.testing.contracts.saver import OpenSaver, SharedSaverContract


class TestSqliteSaver(SharedSaverContract):
    @pytest.fixture
    def open_saver(self, folder: Path) -> OpenSaver:
        return partial(SqliteSaver, folder / "threads.db")
