"""Installs a program from the system's packages, where that can be done without asking."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

LOCK_FILE = Path(tempfile.gettempdir()) / f"placet-packages-{os.geteuid()}.lock"


def install(package: str) -> None:
    """Try to install the package. The caller checks whether the program is there afterwards.

    Several targets of the Makefile install programs at the same time. They take turns, because apt-get fails
    if another one runs.
    """
    if not shutil.which("apt-get"):
        return
    apt = ["apt-get"] if os.geteuid() == 0 else ["sudo", "-n", "apt-get"]
    if not shutil.which(apt[0]):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with LOCK_FILE.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
            subprocess.run([*apt, *arguments], env=environment, check=False)
