from functools import partial

import pytest

from placet.hook import FileSaver as TheirSaver
from placet.testing.contracts.saver import SharedSaverContract


class TestTheirSaver(SharedSaverContract):
    @pytest.fixture
    def open_saver(self, tmp_path):
        return partial(TheirSaver, tmp_path / "threads")


# What follows is for the tests: that file, run as its owner would.
if __name__ == "snippet":
    import subprocess
    import sys
    from pathlib import Path

    copy = Path("test_their_saver.py")
    copy.write_text(Path(__file__).read_text("utf-8"), "utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(copy),
        "-k",
        "stage or newest",
    ]
    subprocess.run(command, check=True, timeout=60)
