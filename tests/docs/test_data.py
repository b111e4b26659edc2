"""JSON and TOML in the docs: sound, and taken by a real server where they are meant for one."""

import json
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.hook import ToolCall
from placet.hook.coding_agents.gate_policy import parse_gate_policy
from placet.hook.coding_agents.registry import CODING_AGENTS
from placet.hook.frameworks.mcp.policy import read_policy
from placet.pages.theme import read_theme
from placet.settings import Settings, build_settings
from tests.docs.markdown import PAGES, blocks, relative_name
from tests.waiting import PATIENCE_S

SHOWN = [(page, json.loads(text)) for page in PAGES for text in blocks(page, "json")]
DRAFTS = [(page, shown) for page, shown in SHOWN if {"type", "prompt"} <= shown.keys()]
TOML = [(page, text) for page in PAGES for text in blocks(page, "toml")]
THEMES = [(page, text) for page, text in TOML if page.name == "theme.md"]
GATES = [(page, text) for page, text in TOML if page.name == "approve-mcp-tools.md"]
POLICIES = [(page, text) for page, text in TOML if page.name == "relay-policies.md"]  # tried in tests/relay
GATE_PAGES = {"approve-acp-agents.md", *(f"approve-{host}.md" for host in CODING_AGENTS)}
GATE_POLICIES = [(page, text) for page, text in TOML if page.name in GATE_PAGES]
OTHERS = [*THEMES, *GATES, *POLICIES, *GATE_POLICIES]
SETTINGS = [(page, text) for page, text in TOML if (page, text) not in OTHERS]


def ids(found: list[tuple[Path, Any]]) -> list[str]:
    return [f"{relative_name(page)}-{number}" for number, (page, _) in enumerate(found)]


@pytest.mark.parametrize(("page", "draft"), DRAFTS, ids=ids(DRAFTS))
def test_a_question_shown_in_the_docs_can_be_asked(page: Path, draft: dict[str, Any], live_server):
    url, key = live_server
    reply = httpx.post(
        f"{url}/v1/cases", json=draft, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S
    )
    assert reply.status_code == 202, reply.text


@pytest.mark.parametrize(("page", "text"), SETTINGS, ids=ids(SETTINGS))
def test_settings_shown_in_the_docs_are_settings(page: Path, text: str):
    assert isinstance(build_settings(tomllib.loads(text)), Settings)


@pytest.mark.parametrize(("page", "text"), THEMES, ids=ids(THEMES))
def test_a_look_shown_in_the_docs_can_be_worn(page: Path, text: str, tmp_path: Path):
    (tmp_path / "theme.toml").write_text(text, "utf-8")
    assert read_theme(tmp_path).name == tomllib.loads(text)["name"]


@pytest.mark.parametrize(("page", "text"), GATES, ids=ids(GATES))
def test_what_waits_behind_a_gate_is_told_as_the_gate_reads_it(page: Path, text: str):
    hook = read_policy(tomllib.loads(text))
    calls = [ToolCall(id="c", name=name) for name in ("read_file", "write_file", "move_file", "other")]
    assert [hook.evaluate(call, {}) is not None for call in calls] == [False, True, True, True]


@pytest.mark.parametrize(("page", "text"), GATE_POLICIES, ids=ids(GATE_POLICIES))
def test_rules_for_a_coding_agent_are_rules(page: Path, text: str):
    assert parse_gate_policy(text).rules


def test_a_gate_goes_before_a_server_by_its_command_alone():
    page = next(page for page in PAGES if page.name == "approve-mcp-tools.md")
    plain, gated = (json.loads(text)["mcpServers"]["files"] for text in blocks(page, "json"))
    assert gated["command"] == "placet"
    assert gated["args"] == ["mcp-gate", "--", plain["command"], *plain["args"]]
