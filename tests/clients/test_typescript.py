"""The TypeScript client under Node.js: its own tests against a real server, its examples, and its types."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples.stage import run_placet_server
from placet.signing.algorithms import ALGORITHMS
from placet.signing.jws_signer import JwsSigner
from scripts.node_packages import CLIENT, LOCK, NODE, TSC
from tests.docs.markdown import PAGES, blocks, relative_name
from tests.signing.polls import ring, signed_poll

PATIENCE_S = 100
PROGRAMS = sorted(CLIENT.glob("examples/*.ts"))
SHOWN = [(page, text) for page in PAGES for text in blocks(page, "ts")]
ANSWERS = {"agent": "confirm"}
"""What the person presses in each example; approve in the others."""
DATA: tuple[dict[str, object], ...] = (
    {},
    {"decisions": {"call_1": {"decision": "approve"}}, "note": "Übergrößen\u2028"},
    {
        "list": [1, -0.0, 1e21, 1e-7, 0.1, 9007199254740991, None, True],
        "\u20ac": "",
        "\U0001f600": {"z": 1, "a": 2},
    },
)


@pytest.fixture(scope="module")
def live_server() -> Iterator[tuple[str, str]]:
    with run_placet_server() as told:
        yield told


def start_node(*arguments: str | Path, **env: str) -> "subprocess.Popen[str]":
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PLACET_", "NODE_"))
    }
    return subprocess.Popen(
        [NODE, *arguments],
        cwd=CLIENT,
        env={**inherited, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_success(node: "subprocess.Popen[str]") -> None:
    try:
        said, _ = node.communicate(timeout=PATIENCE_S)
    finally:
        node.kill()
    assert node.returncode == 0, said


def run_node(*arguments: str | Path, **env: str) -> None:
    wait_for_success(start_node(*arguments, **env))


def test_the_client_passes_its_tests_against_a_real_server(
    live_server: tuple[str, str], tmp_path: Path
) -> None:
    signers = [JwsSigner(ring(algorithm)) for algorithm in ALGORITHMS]
    signed = [{"poll": signed_poll(one, data), "keys": one.jwks()} for one in signers for data in DATA]
    vectors = tmp_path / "signed.json"
    vectors.write_text(json.dumps(signed))
    url, key = live_server
    tests = sorted(CLIENT.glob("test/*.test.js"))
    assert len(tests) >= 5
    run_node("--test", *tests, PLACET_SERVER=url, PLACET_KEY=key, SIGNED_RESULTS=str(vectors))


def test_the_types_hold_and_those_that_are_shipped_are_current(tmp_path: Path) -> None:
    run_node(TSC, "--project", "tsconfig.json")
    run_node(TSC, "--project", "tsconfig.types.json", "--outDir", tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    shipped = {path.name: path.read_text() for path in (CLIENT / "types").iterdir()}
    assert written == shipped, "The sources have changed. Run `npm run types` in clients/typescript."


def test_the_package_needs_nothing_else_and_no_build(tmp_path: Path) -> None:
    """What `npm install` copies runs in a folder of its own, without other packages."""
    package = json.loads((CLIENT / "package.json").read_text())
    assert "dependencies" not in package
    installed = tmp_path / "node_modules" / package["name"]
    for part in ("package.json", *package["files"]):
        copy = shutil.copytree if (CLIENT / part).is_dir() else shutil.copy
        installed.mkdir(parents=True, exist_ok=True)
        copy(CLIENT / part, installed / part)
    program = tmp_path / "program.mjs"
    program.write_text(
        'import { PlacetClient } from "placet-client";\n'
        'import { guardTools } from "placet-client/ai-sdk";\n'
        'new PlacetClient("https://placet.example", "key");\n'
        "guardTools({}, {}, {});\n"
    )
    run_node(program)


def test_the_lock_carries_hashes_and_no_addresses() -> None:
    packages = json.loads(LOCK.read_text())["packages"]
    assert all("integrity" in one for name, one in packages.items() if name)
    assert not any("resolved" in one for one in packages.values())


@pytest.mark.parametrize("program", PROGRAMS, ids=relative_name)
def test_an_example_does_what_its_page_says(program: Path, live_server: tuple[str, str]) -> None:
    url, key = live_server
    node = start_node("--no-warnings", program, PLACET_SERVER=url, PLACET_KEY=key)
    assert node.stdout is not None
    for line in node.stdout:
        if link := re.search(r"http\S+/review/\S+", line):
            action = ANSWERS.get(program.stem, "approve")
            data = {"confirmed_items": ["2019"]} if action == "confirm" else {}
            body = {"action": action, "data": data}
            httpx.post(link[0].replace("?", "/respond?"), json=body, timeout=PATIENCE_S).raise_for_status()
            break
    wait_for_success(node)


def test_typescript_on_a_page_is_part_of_an_example() -> None:
    programs = [program.read_text("utf-8") for program in PROGRAMS]
    assert {program.stem for program in PROGRAMS} >= {"service", "agent", "guard", "approve_in_ai_sdk"}
    assert [
        (relative_name(page), text)
        for page, text in SHOWN
        if not any(text in program for program in programs)
    ] == []
    assert all(any(text in program for _, text in SHOWN) for program in programs)
