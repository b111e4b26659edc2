"""The path that the page about policies leads along, walked as its reader would."""

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.forked_command import search_path
from tests.cli.process import placet, serving
from tests.docs.markdown import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "relay-policies.md"
STRICT = "set -euo pipefail\n"
PATIENCE_S = 90
CONFIG = "[relay]\nenabled = true\n"


class PageWalkthrough:
    """Everything a reader typed, and what they saw."""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        self.folder = folder
        self.api = httpx.Client(
            base_url=f"{url}/relay/v1", headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S
        )
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
        self._local = {**inherited, "PATH": search_path(), "PLACET_DB": "cases.db"}
        self._remote = {**self._local, "PLACET_SERVER": url, "PLACET_KEY": key}

    def run(self, script: str, *, remote: bool = False) -> str:
        done = subprocess.run(
            ["bash", "-c", STRICT + script],
            check=False,
            cwd=self.folder,
            env=self._remote if remote else self._local,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def content(self, path: str) -> list[dict[str, Any]]:
        answer = self.api.get(path)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["content"]
        return found


@pytest.fixture(scope="module")
def walkthrough(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWalkthrough]:
    folder = tmp_path_factory.mktemp("page")
    policies = blocks(PAGE, "toml")[0]
    (folder / "policies.toml").write_text(policies)
    (folder / "ssn.json").write_text(blocks(PAGE, "json")[0])
    (folder / "placet.toml").write_text(CONFIG)
    key = placet(folder, "key", "create", "root", "--scope", "admin", "--db", "cases.db").stdout.strip()
    with serving(folder, "--config", "placet.toml") as server:
        one = PageWalkthrough(folder, server.url(), key)
        yield one
        one.api.close()


def test_the_policy_in_json_is_the_first_of_the_file():
    policies = blocks(PAGE, "toml")[0]
    assert tomllib.loads(policies)["policies"][0] == json.loads(blocks(PAGE, "json")[0])


def test_the_commands_of_the_page_put_policies_in_force(walkthrough: PageWalkthrough):
    add_and_bind, tried, replayed, _ = blocks(PAGE, "bash")
    walkthrough.run(add_and_bind + tried)
    assert len(walkthrough.content("/policies")) == 3
    (binding,) = walkthrough.content("/policy-bindings")
    assert binding["bindingLevel"] == "TENANT"
    assert walkthrough.run(replayed).startswith("Of 0 examined messages, ")


def test_the_calls_of_the_page_do_the_same_by_the_api(walkthrough: PageWalkthrough):
    *_, calls = blocks(PAGE, "bash")
    said = walkthrough.run(calls, remote=True)
    assert '"outcome":"HOLD"' in said
    assert '"summary":"Of 0 examined messages' in said
    bound = [one for one in walkthrough.content("/policy-bindings") if one["bindingLevel"] == "AGENT"]
    assert [one["agentId"] for one in bound] == ["weather"]


def test_every_address_of_the_page_is_there(walkthrough: PageWalkthrough):
    told = PAGE.read_text("utf-8")
    for address in ("policies", "policy-groups", "policy-bindings"):
        assert f"/relay/v1/{address}" in told
        assert walkthrough.api.get(f"/{address}").status_code == 200
