"""The Claude Agent SDK with its own Claude Code, a scripted model on loopback, and no account."""

import asyncio
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultMessage, ToolPermissionContext, query

from placet.errors import Unavailable
from placet.hook import HumanInTheLoopHook, MemorySaver, ToolConfig
from placet.hook.frameworks.claude_agent_sdk import ClaudeAgentApproval
from placet.testing.approvals import Harness
from placet.testing.contracts.tool_approval import ToolApprovalContract
from tests.hook.coding_agents.scripted_model import ScriptedModel, scripted_model
from tests.hook.frameworks.own_environment.claude_agent_harness import ClaudeAgentHarness
from tests.hook.frameworks.own_environment.snippet_run import run_snippet
from tests.hook.frameworks.own_environment.waiting_runs import next_waiting, running

HOOK = HumanInTheLoopHook({"Bash": ToolConfig(allowed_decisions=("approve", "edit", "reject", "respond"))})
SUBTASK = "Have a helper touch the file."
TOUCH = {"command": "touch made.txt", "description": "x"}


class ClaudeRun:
    """Claude Code in a scratch home folder."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.model = model
        self.project = folder / "project"
        self.project.mkdir()
        self.env = {
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": str(folder / "config"),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "x",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        }

    @property
    def made(self) -> Path:
        return self.project / "made.txt"

    def options(self, **named: Any) -> ClaudeAgentOptions:
        mode = named.pop("permission_mode", "bypassPermissions")
        return ClaudeAgentOptions(
            cwd=self.project, env=self.env, permission_mode=mode, setting_sources=[], **named
        )

    def go(self, options: ClaudeAgentOptions) -> str:
        """Run to the end; return what the model read about its call."""

        async def prompts() -> Any:
            yield {"type": "user", "message": {"role": "user", "content": "go"}}
            await done.wait()

        async def main() -> None:
            async for message in query(prompt=prompts(), options=options):
                if isinstance(message, ResultMessage):
                    done.set()

        done = asyncio.Event()
        asyncio.run(main())
        return self.model.read_results()


class TestClaudeAgentSdk(ToolApprovalContract):
    """The contract, driven by the Claude Agent SDK and a scripted Claude Code."""

    harness: ClassVar[type[Harness]] = ClaudeAgentHarness


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[ClaudeRun]:
    with scripted_model() as model:
        model.say("Bash", **TOUCH)
        yield ClaudeRun(tmp_path, model)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def approval() -> ClaudeAgentApproval:
    return ClaudeAgentApproval(HOOK, saver=MemorySaver(), run_id="r", poll_interval=0.05)


def test_a_call_waits_until_it_is_approved(approval: ClaudeAgentApproval, claude: ClaudeRun) -> None:
    with running(lambda: claude.go(approval.gate(claude.options()))) as done:
        stopped = next_waiting(approval, done)
        assert stopped.tool_feedbacks[0].arguments == TOUCH
        assert not claude.made.exists()
        approval.answer(stopped.approve_all())
    assert claude.made.exists()
    assert "tool_result" in done.result()


def test_an_edited_call_runs_as_edited(approval: ClaudeAgentApproval, claude: ClaudeRun) -> None:
    with running(lambda: claude.go(approval.gate(claude.options()))) as done:
        stopped = next_waiting(approval, done)
        approval.answer(stopped.edit_tool("Bash", {**TOUCH, "command": "touch other.txt"}))
    assert (claude.project / "other.txt").exists()
    assert not claude.made.exists()
    assert "A person changed this call" in done.result()


def test_a_rejected_call_does_not_run_and_claude_reads_why(
    approval: ClaudeAgentApproval, claude: ClaudeRun
) -> None:
    with running(lambda: claude.go(approval.gate(claude.options()))) as done:
        approval.answer(next_waiting(approval, done).reject_all("back it up first"))
    assert not claude.made.exists()
    assert "back it up first" in done.result()


def test_a_call_without_a_rule_runs(claude: ClaudeRun) -> None:
    approval = ClaudeAgentApproval(HumanInTheLoopHook({"Write": "?"}), saver=MemorySaver(), run_id="r")
    claude.go(approval.gate(claude.options()))
    assert claude.made.exists()


class BrokenSaver(MemorySaver):
    def get(self, thread_id: str) -> Any:
        raise Unavailable("the disk is gone")


def test_an_approval_that_fails_runs_nothing(claude: ClaudeRun) -> None:
    approval = ClaudeAgentApproval(HOOK, saver=BrokenSaver(), run_id="r")
    assert "the disk is gone" in claude.go(approval.gate(claude.options()))
    assert not claude.made.exists()


def test_a_call_that_nobody_decides_is_rejected(claude: ClaudeRun) -> None:
    hook = HumanInTheLoopHook({"Bash": ToolConfig(timeout=timedelta(seconds=1))})
    approval = ClaudeAgentApproval(hook, saver=MemorySaver(), run_id="r", poll_interval=0.05)
    claude.go(approval.gate(claude.options()))
    assert not claude.made.exists()


def test_claude_code_asks_where_it_would_ask(approval: ClaudeAgentApproval, claude: ClaudeRun) -> None:
    options = claude.options(permission_mode="default", can_use_tool=approval.can_use_tool)
    with running(lambda: claude.go(options)) as done:
        stopped = next_waiting(approval, done)
        assert not claude.made.exists()
        approval.answer(stopped.approve_all())
    assert claude.made.exists()


def test_a_tool_without_a_rule_is_denied_where_claude_code_asks() -> None:
    hook = HumanInTheLoopHook({"Write": "?"})
    approval = ClaudeAgentApproval(hook, saver=MemorySaver(), run_id="r")
    said = asyncio.run(approval.can_use_tool("Bash", TOUCH, ToolPermissionContext(tool_use_id="t")))
    assert said.behavior == "deny"


@pytest.mark.parametrize(("delay_s", "edit"), [(0, True), (1, False)])
def test_another_hook_cannot_change_what_a_person_approved(
    approval: ClaudeAgentApproval, claude: ClaudeRun, delay_s: float, edit: bool
) -> None:
    """Claude Code runs all hooks at once; the last one that changes the arguments wins."""

    async def change(sent: Any, tool_use_id: str | None, context: Any) -> Any:
        await asyncio.sleep(delay_s)
        changed = {**TOUCH, "command": "touch changed.txt"}
        said = {"permissionDecision": "allow", "updatedInput": changed}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}

    options = approval.gate(claude.options(hooks={"PreToolUse": [HookMatcher(hooks=[change])]}))
    with running(lambda: claude.go(options)) as done:
        stopped = next_waiting(approval, done)
        shown = stopped.tool_feedbacks[0].arguments
        edited = {**TOUCH, "command": "touch edited.txt"}
        approval.answer(stopped.edit_tool("Bash", edited) if edit else stopped.approve_all())
    ran = edited if edit else shown
    assert [f"touch {path.name}" for path in claude.project.iterdir()] == [ran["command"]]


def test_a_call_of_a_subagent_waits(approval: ClaudeAgentApproval, claude: ClaudeRun) -> None:
    def answer_by_conversation(path: str, text: str) -> tuple[str, str]:
        if SUBTASK in text:
            claude.model.tool, claude.model.arguments = "Bash", TOUCH
        return answer(path, text)

    answer = claude.model.answer
    claude.model.answer = answer_by_conversation  # type: ignore[method-assign]
    claude.model.say("Agent", description="x", prompt=SUBTASK, subagent_type="general-purpose")
    with running(lambda: claude.go(approval.gate(claude.options()))) as done:
        stopped = next_waiting(approval, done)
        assert [call.name for call in stopped.undecided] == ["Bash"]
        assert not claude.made.exists()
        approval.answer(stopped.reject_all("no"))
    assert not claude.made.exists()


def test_hooks_of_others_stay(approval: ClaudeAgentApproval) -> None:
    other = HookMatcher(matcher="Bash")
    gated = approval.gate(ClaudeAgentOptions(hooks={"PreToolUse": [other], "Stop": [other]}))
    assert gated.hooks is not None
    assert gated.hooks["PreToolUse"][0] is other
    assert len(gated.hooks["PreToolUse"]) == 2
    assert gated.hooks["Stop"] == [other]


def test_the_guide_does_what_its_page_says(tmp_path: Path, claude: ClaudeRun) -> None:
    claude.model.say("mcp__shop__refund", order="17")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in claude.env.items():
            patch.setenv(name, value)
        run_snippet("approve_in_claude_agent_sdk.py", tmp_path)
