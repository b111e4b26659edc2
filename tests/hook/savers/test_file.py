"""FileSaver keeps the contract."""

from functools import partial
from pathlib import Path

import pytest

from placet.hook.savers.file import FileSaver
from placet.testing.contracts.saver import OpenSaver, SharedSaverContract


class TestFileSaver(SharedSaverContract):
    @pytest.fixture
    def open_saver(self, folder: Path) -> OpenSaver:
        return partial(FileSaver, folder / "threads")
