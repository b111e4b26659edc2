"""A fresh desk for every test."""

import pytest

from assent.testing.desk import DeskForTests, desk_for_tests


@pytest.fixture
def kit() -> DeskForTests:
    return desk_for_tests()
