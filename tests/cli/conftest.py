"""A server, and a fresh folder in front of it for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.asking import Desk
from tests.cli.process import ServerProcess, serving


@pytest.fixture(scope="module")
def desk_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("desk")) as server:
        server.url()
        yield server


@pytest.fixture
def desk(desk_server: ServerProcess, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path, desk_server)
    yield desk
    desk.close()
