"""Installs a program from the system's packages, where that can be done without asking."""

import os
import shutil
import subprocess


def install(package: str) -> None:
    """Try; whether the program is there afterwards is for the caller to see."""
    if not shutil.which("apt-get"):
        return
    apt = ["apt-get"] if os.geteuid() == 0 else ["sudo", "-n", "apt-get"]
    if not shutil.which(apt[0]):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
        subprocess.run([*apt, *arguments], env=environment, check=False)
