"""Install the newest coding agents with npm, and try `placet gate` in each with a scripted model.

They need no account. Each runs in a scratch home folder, with an emptied environment.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "coding-agents"
INSTALLERS = {
    "@anthropic-ai/claude-code": "install.cjs",
    "@google/gemini-cli": "",
    "@openai/codex": "",
    "opencode-ai": "postinstall.mjs",
}
"""Package -> the script with which it fetches its program; npm does not run it by itself."""
TESTS = "tests/hook/coding_agents/real_hosts.py"
INSTALL_WITHIN_S = 900


def main() -> int:
    """Install the programs and run the tests; return the exit code of the tests."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        print("The coding agents need Node.js and npm.", file=sys.stderr)
        return 1
    home = FOLDER / "home"
    home.mkdir(parents=True, exist_ok=True)
    (FOLDER / "package.json").write_text("{}\n")
    environ = {**os.environ, "HOME": str(home)}
    run([npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", *INSTALLERS], FOLDER, environ)
    for package, script in INSTALLERS.items():
        if script:
            run([node, script], FOLDER / "node_modules" / package, environ)
    tests = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", TESTS]
    return subprocess.run(
        tests, cwd=ROOT, env={**os.environ, "REAL_AGENTS": str(FOLDER)}, check=False
    ).returncode


def run(command: list[str], folder: Path, environ: dict[str, str]) -> None:
    """Run an installer to its end."""
    subprocess.run(command, cwd=folder, env=environ, timeout=INSTALL_WITHIN_S, check=True)


if __name__ == "__main__":
    sys.exit(main())
