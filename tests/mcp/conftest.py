"""One Placet server for all assistants."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import ServerProcess, serving
from tests.mcp.assistant import Setting


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("placet")) as server:
        server.url()
        yield server


@pytest.fixture
def setting(server: ServerProcess, tmp_path: Path) -> Setting:
    return Setting(server, tmp_path)
