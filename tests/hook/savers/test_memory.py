"""MemorySaver keeps the contract that one process can ask for."""

import pytest

from placet.hook.savers.memory import MemorySaver
from placet.testing.contracts.saver import OpenSaver, SaverContract


class TestMemorySaver(SaverContract):
    @pytest.fixture
    def open_saver(self) -> OpenSaver:
        return MemorySaver
