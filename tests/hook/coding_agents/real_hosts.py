"""`placet gate` in the real programs, with a scripted model on loopback: no account, no network.

`make compat-agents` runs this file. REAL_AGENTS names the folder into which npm has installed the programs.
Each runs in a home folder of its own and with an emptied environment.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, ViewportSize

from tests.cli.forked_command import INSTALLED
from tests.cli.gated_host import GatedHost, serving_an_inbox
from tests.cli.process import ServerProcess
from tests.cli.scripted_editor import Editor, JsonLines
from tests.hook.coding_agents.scripted_model import ScriptedModel, scripted_model
from tests.waiting import eventually

PROGRAMS = Path(os.environ["REAL_AGENTS"]) / "node_modules" / ".bin"
LIMIT_S = 100
PHONE: ViewportSize = {"width": 390, "height": 844}


class RealHost:
    """A real coding agent in a scratch home folder, with the gate installed."""

    def __init__(self, gated: GatedHost, model: ScriptedModel, name: str, policy: str | None = None) -> None:
        self.gated = gated
        self.model = model
        self.project = gated.home / "project"
        self.project.mkdir(exist_ok=True)
        self.log = gated.home / "log"
        node = shutil.which("node")
        assert node is not None, "the programs need Node.js"
        self.path = f"{Path(node).parent}:/usr/bin:/bin"
        self.commands = gated.install(agent=name)
        if policy is not None:
            gated.policy.write_text(policy)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def made(self) -> Path:
        """The file that the command makes if it runs."""
        return self.project / "made.txt"

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Nothing of this machine but the way to Node.js."""
        return {"HOME": str(self.gated.home), "PATH": self.path, "LANG": "C.UTF-8", **extra}

    def start(self, *command: str, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        program, *arguments = command
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(PROGRAMS / program), *arguments],
                cwd=self.project,
                env=self.environment(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.gated.close_later(self.process)
        return self.process

    def end(self) -> str:
        """What the program printed until its end."""
        assert self.process is not None
        self.process.wait(LIMIT_S)
        return self.log.read_text("utf-8", "replace")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    with serving_an_inbox(tmp_path_factory.mktemp("gate")) as opened:
        yield opened


@pytest.fixture
def gated(server: tuple[ServerProcess, str], tmp_path: Path) -> Iterator[GatedHost]:
    with closing(GatedHost(tmp_path, *server)) as opened:
        yield opened


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as started:
        yield started


# OpenCode


@contextmanager
def opencode(gated: GatedHost, model: ScriptedModel) -> Iterator["OpenCodeServer"]:
    """`opencode serve`, which asks about each command."""
    host = RealHost(gated, model, "opencode")
    write_opencode_config(gated, model)
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    process = host.start("opencode", "serve", "--port", "0", env=env)
    listening = re.compile(r"listening on (http://\S+)")
    try:
        found = eventually(lambda: listening.search(host.log.read_text()), within=LIMIT_S)
        with httpx.Client(base_url=found[1], timeout=LIMIT_S) as client:
            yield OpenCodeServer(host, client)
    finally:
        process.kill()
        process.wait(LIMIT_S)


def write_opencode_config(gated: GatedHost, model: ScriptedModel) -> None:
    """Let OpenCode use the scripted model, and ask about each command."""
    options = {"baseURL": f"{model.url}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "m"}}}
    config = {
        "autoupdate": False,
        "model": "fake/m",
        "small_model": "fake/m",
        "permission": {"bash": "ask"},
        "provider": {"fake": provider},
    }
    (gated.home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(config))


class OpenCodeServer:
    """A session of `opencode serve`."""

    def __init__(self, host: RealHost, client: httpx.Client) -> None:
        self.host = host
        self.client = client
        self.session = client.post("/session", json={}).json()["id"]

    def prompt(self) -> None:
        """Start a turn of the agent."""
        said = {"parts": [{"type": "text", "text": "go"}]}
        sent = self.client.post(f"/session/{self.session}/prompt_async", json=said)
        assert sent.status_code < 300, sent.text

    def list_permissions(self) -> Any:
        return self.client.get("/permission").json()

    def until_result(self) -> str:
        return eventually(self.host.model.read_results, within=LIMIT_S)


def test_opencode_runs_a_command_after_a_person_approved_it(gated: GatedHost, model: ScriptedModel) -> None:
    model.say("bash", command="touch made.txt", description="x")
    with opencode(gated, model) as running:
        running.prompt()
        assert "OpenCode wants to run: touch made.txt" in gated.open_page().text
        assert running.list_permissions() != []
        assert not running.host.made.exists()
        gated.answer(action="approve")
        running.until_result()
        assert running.host.made.exists()
        assert running.list_permissions() == []


def test_opencode_reads_why_a_command_was_rejected(gated: GatedHost, model: ScriptedModel) -> None:
    model.say("bash", command="touch made.txt", description="x")
    with opencode(gated, model) as running:
        running.prompt()
        gated.answer(action="reject", **{"decision.1": "reject", "reason.1": "Not today"})
        assert "Not today" in running.until_result()
        assert not running.host.made.exists()


def test_an_answer_in_opencode_closes_the_question(gated: GatedHost, model: ScriptedModel) -> None:
    model.say("bash", command="touch made.txt", description="x")
    with opencode(gated, model) as running:
        running.prompt()
        gated.open_page()
        (asked,) = running.list_permissions()
        running.client.post(f"/permission/{asked['id']}/reply", json={"reply": "once"})
        running.until_result()
        assert running.host.made.exists()
        assert gated.until_closed()["status"] == "cancelled"


def test_the_policy_decides_in_opencode(gated: GatedHost, model: ScriptedModel) -> None:
    gated.allow('[[deny]]\ncommand = "touch *"\nreason = "Never."\n[[allow]]\ncommand = "mkdir *"')
    model.say("bash", command="touch made.txt", description="x")
    with opencode(gated, model) as running:
        running.prompt()
        assert "Never." in running.until_result()
        assert not running.host.made.exists()
    model.say("bash", command="mkdir made.txt", description="x")
    with opencode(gated, model) as running:
        running.prompt()
        running.until_result()
        assert running.host.made.exists()


def test_opencode_runs_nothing_if_the_gate_is_gone(gated: GatedHost, model: ScriptedModel) -> None:
    model.say("bash", command="touch made.txt", description="x")
    with opencode(gated, model) as running:
        gated.policy.write_text("[[broken")
        running.prompt()
        assert "was not done" in running.until_result()
        assert not running.host.made.exists()


def test_opencode_asks_over_acp(gated: GatedHost, model: ScriptedModel) -> None:
    """The agent's own plugin is taken away: only `placet acp` decides."""
    model.say("bash", command="touch made.txt", description="x")
    host = RealHost(gated, model, "opencode")
    write_opencode_config(gated, model)
    (gated.home / ".config" / "opencode" / "plugins" / "placet-gate.js").unlink()
    program = str(PROGRAMS / "opencode")
    env = host.environment({"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"})
    with closing(Editor(gated, agent=(program, "acp"), env=env, cwd=host.project)) as editor:
        editor.prompt_text("go")
        assert "wants to run: touch made.txt" in gated.open_page().text
        assert not host.made.exists()
        gated.answer(action="approve")
        editor.until(lambda one: one.get("id") == "prompt", within=LIMIT_S)
        assert host.made.exists()


# Gemini CLI


def run_gemini(gated: GatedHost, model: ScriptedModel, *, policy: str | None = None) -> RealHost:
    """Gemini CLI, run once without asking itself."""
    host = RealHost(gated, model, "gemini-cli", policy)
    path = gated.home / ".gemini" / "settings.json"
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": True}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **auth}))
    env = {
        "GEMINI_API_KEY": "x",
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    host.start("gemini", "-m", "gemini-2.5-flash", "-p", "go", "--approval-mode", "yolo", env=env)
    return host


def test_gemini_asks_a_person_by_a_rule(gated: GatedHost, model: ScriptedModel) -> None:
    gated.allow('[[ask]]\ntool = "run_shell_command"')
    model.say("run_shell_command", command="touch made.txt")
    host = run_gemini(gated, model)
    assert "Gemini CLI wants to run: touch made.txt" in gated.open_page().text
    assert not host.made.exists()
    gated.answer(action="approve")
    assert "done" in host.end()
    assert host.made.exists()


def test_gemini_reads_why_a_command_was_rejected(gated: GatedHost, model: ScriptedModel) -> None:
    gated.allow('[[ask]]\ntool = "run_shell_command"')
    model.say("run_shell_command", command="touch made.txt")
    host = run_gemini(gated, model)
    gated.answer(action="reject", **{"decision.1": "reject", "reason.1": "Not today"})
    host.end()
    assert "Not today" in model.read_results()
    assert not host.made.exists()


def test_gemini_runs_nothing_if_the_gate_is_gone(gated: GatedHost, model: ScriptedModel) -> None:
    model.say("run_shell_command", command="touch made.txt")
    host = run_gemini(gated, model, policy="[[broken")
    host.end()
    assert "was not done" in model.read_results()
    assert not host.made.exists()


# Claude Code


def run_claude(
    gated: GatedHost,
    model: ScriptedModel,
    *arguments: str,
    policy: str | None = None,
    settings: Any = None,
    **extra: str,
) -> RealHost:
    """Claude Code, run once."""
    host = RealHost(gated, model, "claude-code", policy)
    if settings is not None:
        (gated.home / ".claude" / "settings.json").write_text(json.dumps(settings))
    env = {
        **extra,
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "x",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "MCP_CONNECT_TIMEOUT_MS": f"{LIMIT_S * 1000}",
        "IS_SANDBOX": "1",
    }
    host.start("claude", "-p", "go", *arguments, env=env)
    return host


def test_claude_code_asks_a_person_by_a_rule(gated: GatedHost, model: ScriptedModel) -> None:
    gated.allow('[[ask]]\ntool = "Bash"')
    model.say("Bash", command="touch made.txt", description="x")
    host = run_claude(gated, model, "--dangerously-skip-permissions")
    assert "Claude Code wants to run: touch made.txt" in gated.open_page().text
    assert not host.made.exists()
    gated.answer(action="approve")
    assert "done" in host.end()
    assert host.made.exists()


def test_a_command_is_approved_on_a_phone(
    gated: GatedHost, model: ScriptedModel, server: tuple[ServerProcess, str], browser: Browser
) -> None:
    gated.allow('[[ask]]\ntool = "Bash"')
    model.say("Bash", command="touch made.txt", description="x")
    host = run_claude(gated, model, "--dangerously-skip-permissions")
    gated.open_page()
    started, key = server
    with closing(browser.new_context(viewport=PHONE, is_mobile=True, has_touch=True)) as context:
        page = context.new_page()
        page.goto(f"{started.url()}/inbox")
        page.fill("input[name=key]", key)
        page.keyboard.press("Enter")
        page.get_by_text("Claude Code wants to run: touch made.txt").tap()
        approve = page.get_by_role("button", name="Approve", exact=True)
        approve.wait_for()
        shown = approve.bounding_box()
        assert shown is not None
        assert shown["y"] + shown["height"] <= PHONE["height"]  # on the first screen
        assert not host.made.exists()
        approve.tap()
        host.end()
    assert host.made.exists()


def test_claude_code_asks_through_the_permission_tool(gated: GatedHost, model: ScriptedModel) -> None:
    """In `-p`, its hooks for PermissionRequest do not run, and nobody is at a terminal."""
    tool = {"command": INSTALLED, "args": ["gate", "permission-tool"]}
    config = json.dumps({"mcpServers": {"placet": tool}})
    for decision, is_made in (("reject", False), ("approve", True)):
        model.say("Bash", command="touch made.txt", description="x")
        options = ("--mcp-config", config, "--permission-prompt-tool", "mcp__placet__approve")
        host = run_claude(gated, model, *options)
        gated.answer(action=decision, **{"decision.1": decision})
        host.end()
        assert host.made.exists() == is_made


def test_claude_code_asks_a_person_over_http(gated: GatedHost, model: ScriptedModel) -> None:
    gated.allow('[[ask]]\ntool = "Bash"')
    settings = gated.serve_hooks("a-secret")
    for decision, is_made in (("", False), ("reject", False), ("approve", True)):
        model.say("Bash", command="touch made.txt", description="x")
        token = "a-secret" if decision else "wrong"
        options = ("--dangerously-skip-permissions",)
        host = run_claude(gated, model, *options, settings=settings, PLACET_GATE_TOKEN=token)
        if decision:
            gated.answer(action=decision, **{"decision.1": decision})
        host.end()
        assert host.made.exists() == is_made
        assert decision or "another token" in model.read_results()


def test_claude_code_runs_nothing_if_the_gate_is_gone(gated: GatedHost, model: ScriptedModel) -> None:
    model.say("Bash", command="touch made.txt", description="x")
    host = run_claude(gated, model, "--dangerously-skip-permissions", policy="[[broken")
    host.end()
    assert "was not done" in model.read_results()
    assert not host.made.exists()


# Codex


def list_codex_options(model: ScriptedModel) -> list[str]:
    """Let Codex use the scripted model."""
    provider = f'{{name="fake",base_url="{model.url}/v1",wire_api="responses",requires_openai_auth=false}}'
    settings = ("model_provider=fake", 'model="gpt-5"', f"model_providers.fake={provider}")
    return [word for one in settings for word in ("-c", one)]


def run_codex(gated: GatedHost, model: ScriptedModel, *, policy: str | None = None) -> RealHost:
    """Codex, run once without asking itself. Its hooks are trusted for this run."""
    host = RealHost(gated, model, "codex", policy)
    trust = ("--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox")
    host.start("codex", "exec", *trust, "--skip-git-repo-check", *list_codex_options(model), "go", env={})
    return host


def test_codex_asks_a_person_by_a_rule(gated: GatedHost, model: ScriptedModel) -> None:
    gated.allow('[[ask]]\ntool = "Bash"')
    for decision, is_made in (("reject", False), ("approve", True)):
        model.say("exec_command", cmd="touch made.txt")
        host = run_codex(gated, model)
        assert "Codex wants to run: touch made.txt" in gated.open_page().text
        assert not host.made.exists()
        gated.answer(action=decision, **{"decision.1": decision})
        host.end()
        assert host.made.exists() == is_made


def test_codex_runs_nothing_if_the_gate_is_gone(gated: GatedHost, model: ScriptedModel) -> None:
    model.say("exec_command", cmd="touch made.txt")
    host = run_codex(gated, model, policy="[[broken")
    host.end()
    assert "was not done" in model.read_results()
    assert not host.made.exists()


def test_codex_app_server_asks_through_the_proxy(gated: GatedHost, model: ScriptedModel) -> None:
    model.say(
        "exec_command", cmd="touch made.txt", sandbox_permissions="require_escalated", justification="x"
    )
    host = RealHost(gated, model, "codex")
    (gated.home / ".codex" / "hooks.json").unlink()
    command = [str(PROGRAMS / "codex"), *list_codex_options(model), "app-server"]
    for decision, is_made in (("reject", False), ("approve", True)):
        model.say(model.tool, **model.arguments)
        client = CodexClient(host, command)
        with closing(client):
            client.start_turn()
            assert "Codex wants to run" in gated.open_page().text
            assert not host.made.exists()
            gated.answer(action=decision, **{"decision.1": decision})
            client.until_method("turn/completed")
        assert host.made.exists() == is_made


class CodexClient(JsonLines):
    """An editor of Codex's app server."""

    def __init__(self, host: RealHost, command: list[str]) -> None:
        program = [INSTALLED, "acp", "--protocol", "codex-app-server", "--", *command]
        super().__init__(host.gated, program, host.environment({}), host.project)
        self.call("initialize", clientInfo={"name": "test", "version": "1"})
        self.send({"method": "initialized"})

    def start_turn(self) -> None:
        folder = str(self.cwd)
        started = self.call("thread/start", cwd=folder, approvalPolicy="on-request", sandbox="read-only")
        thread = started["result"]["thread"]["id"]
        self.call("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
