"""Wrong arguments are refused where they are passed, with a sentence that says what to pass instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.client import PlacetClient
from placet.errors import InvalidFeedback
from placet.hook import (
    CheckpointRetention,
    EmbeddedGrants,
    EmbeddedReviews,
    FileSaver,
    HumanInTheLoopHook,
    MemorySaver,
    ReactAgent,
    ServerGrants,
    ServerReviews,
    SqliteSaver,
    Tool,
    ToolConfig,
    ToolFeedback,
    requires_approval,
    resume_pending,
    tool,
)
from placet.hook.frameworks.langchain import ApprovalMiddleware
from placet.hook.frameworks.langchain import resume as resume_langchain
from placet.hook.frameworks.mcp import ApprovalProxy
from placet.hook.frameworks.mcp.upstream import McpUpstream
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.hook.gate import Gate
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption

HOOK = HumanInTheLoopHook({"execute_sql": True})
ADAPTERS: list[Any] = [ApprovalMiddleware, PydanticAIApproval, OpenAIAgentsApproval]
WRONG: dict[str, Any] = {
    "None": None,
    "list": ["execute_sql"],
    "text": "execute_sql",
    "mapping": {"execute_sql": True},
    "number": -3,
    "flag": True,
    "object": object(),
    "class": dict,
    "two parameters": lambda one, two: None,
    "no parameters": lambda: None,
    "bytes": b"x",
}


def build_agent(**named: Any) -> ReactAgent:
    usual: dict[str, Any] = {
        "name": "clerk",
        "model": Scripted("done"),
        "tools": Office().tools,
        "hooks": [HOOK],
        "saver": MemorySaver(),
    }
    return ReactAgent(**{**usual, **named})


def build_tool(**named: Any) -> Tool:
    usual: dict[str, Any] = {"name": "f", "description": "", "schema": {"type": "object"}, "function": print}
    return Tool(**{**usual, **named})


def decorate(**named: Any) -> object:
    return requires_approval(**named)(print)


def build_rule(rule: Any) -> HumanInTheLoopHook:
    return HumanInTheLoopHook({"execute_sql": rule})


def build_hook(**named: Any) -> HumanInTheLoopHook:
    return HumanInTheLoopHook({"execute_sql": True}, **named)


def build_proxy(**named: Any) -> ApprovalProxy:
    hooks = named.pop("hooks", [HOOK])
    options = {"upstream": McpUpstream(lambda: None), "saver": MemorySaver(), **named}
    return ApprovalProxy(options.pop("upstream"), *hooks, **options)


def build_gate(**named: Any) -> Gate:
    options = {"hooks": [HOOK], "saver": MemorySaver(), **named}
    return Gate(options.pop("hooks"), options.pop("saver"), **options)


def build_reviews(**named: Any) -> ServerReviews:
    return ServerReviews(PlacetClient("http://127.0.0.1:1", "key"), **named)


def gate_sdk_tools(tools: Any) -> Any:
    return OpenAIAgentsApproval(HOOK, saver=MemorySaver()).gate_tools(tools)


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Savers that are built with a text make a file or a folder of that name."""
    monkeypatch.chdir(tmp_path)


NOTHING: list[str] = []
ACCEPTED: dict[tuple[Callable[..., Any], str], list[str]] = {
    (HumanInTheLoopHook, "approval_on"): ["mapping"],
    (HumanInTheLoopHook, "everything_except"): ["list", "mapping"],
    (build_hook, "on_new_message"): NOTHING,
    (build_hook, "optional"): ["list", "mapping"],
    (build_rule, "rule"): ["text", "flag"],
    (ToolConfig, "description"): ["text", "two parameters"],
    (ToolConfig, "allowed_decisions"): NOTHING,
    (ToolConfig, "when"): ["None", "two parameters"],
    (ToolConfig, "timeout"): ["None"],
    (ToolConfig, "default"): NOTHING,
    (ToolConfig, "high_risk"): ["flag"],
    (decorate, "description"): ["text", "two parameters"],
    (decorate, "when"): ["None", "two parameters"],
    (decorate, "ask"): ["None"],
    (decorate, "key"): ["None"],
    (decorate, "reviews"): ["None"],
    (decorate, "saver"): ["None"],
    (decorate, "poll_interval"): NOTHING,
    (decorate, "lease_for"): NOTHING,
    (build_agent, "name"): ["text"],
    (build_agent, "model"): ["two parameters", "no parameters"],
    (build_agent, "tools"): NOTHING,
    (build_agent, "hooks"): NOTHING,
    (build_agent, "saver"): NOTHING,
    (build_agent, "reviews"): ["None"],
    (build_agent, "grants"): ["None"],
    (build_agent, "instructions"): ["text"],
    (build_agent, "max_turns"): NOTHING,
    (build_agent, "lease_for"): NOTHING,
    (build_agent, "clock"): ["two parameters", "no parameters"],
    (build_tool, "name"): ["text"],
    (build_tool, "description"): ["text"],
    (build_tool, "schema"): ["mapping"],
    (build_tool, "function"): ["two parameters", "no parameters", "class"],
    (build_tool, "timeout"): ["None"],
    (build_tool, "parallel"): ["flag"],
    (build_tool, "repeatable"): ["flag"],
    (tool, "parallel"): ["flag"],
    (build_gate, "hooks"): NOTHING,
    (build_gate, "saver"): NOTHING,
    (build_gate, "agent"): ["text"],
    (build_proxy, "upstream"): NOTHING,
    (build_proxy, "saver"): NOTHING,
    (build_proxy, "wait_for"): NOTHING,
    (build_proxy, "scope"): ["text"],
    (McpUpstream, "target"): ["two parameters", "no parameters", "class"],
    (SqliteSaver, "path"): ["text"],
    (FileSaver, "folder"): ["text"],
    (ServerReviews, "client"): NOTHING,
    (EmbeddedReviews, "placet"): NOTHING,
    (build_reviews, "timeout"): NOTHING,
    (ServerGrants, "client"): NOTHING,
    (EmbeddedGrants, "placet"): NOTHING,
    (gate_sdk_tools, "tools"): NOTHING,
    (CheckpointRetention, "count"): NOTHING,
    (CheckpointRetention, "age"): ["None"],
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize(
    ("build", "name"), ACCEPTED, ids=[f"{build.__name__}-{name}" for build, name in ACCEPTED]
)
def test_an_argument_of_the_wrong_type_is_refused_by_name(
    build: Callable[..., Any], name: str, kind: str
) -> None:
    if kind in ACCEPTED[build, name]:
        build(**{name: WRONG[kind]})
        return
    with pytest.raises((TypeError, ValueError)) as refused:
        build(**{name: WRONG[kind]})
    assert ":" in str(refused.value) or name == "rule", refused.value
    assert name in str(refused.value) or name == "rule", refused.value
    assert "object is not" not in str(refused.value)


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        (lambda: HumanInTheLoopHook(["a"]), 'approval_on: .* {"send_mail": True}, not a list'),  # type: ignore[arg-type]
        (lambda: ToolConfig(when=True), "when: must be a function of a call and the state .* not True"),  # type: ignore[arg-type]
        (lambda: ToolConfig(when=lambda call: True), "when: must be a function of call and state"),  # type: ignore[arg-type,misc]
        (lambda: ToolConfig(allowed_decisions=("aprove",)), "'aprove' is not a decision; use approve, edit"),  # type: ignore[arg-type]
        (lambda: ToolConfig(allowed_decisions="approve"), "must be a tuple of .*, not the text"),  # type: ignore[arg-type]
        (lambda: ToolConfig(timeout="10m"), "timeout: must be a number of seconds .* not the text '10m'"),  # type: ignore[arg-type]
        (lambda: ToolConfig(timeout=1e300), "timeout: 1e.300 seconds is not a duration"),
        (lambda: ToolConfig(timeout=float("nan")), "timeout: nan seconds is not a duration"),
        (lambda: build_rule(ToolConfig), "the class ToolConfig itself; call it"),
        (lambda: build_agent(saver="x.db"), 'saver: .* SqliteSaver.* not the text \'x.db\''),
        (lambda: build_agent(saver=MemorySaver), "not the class MemorySaver itself; call it"),
        (lambda: build_agent(hooks=HOOK), "hooks: must be a list of hooks, such as .hook., not a Human"),
        (lambda: build_agent(hooks=[HumanInTheLoopHook]), "the class HumanInTheLoopHook itself; call it"),
        (lambda: build_agent(hooks=MemorySaver(), saver=[HOOK]), "hooks: .* not a MemorySaver"),
        (lambda: build_agent(lease_for=60), "lease_for: must be a timedelta, not 60"),
        (lambda: tool(repeatble=True), "There is no option repeatble; use .*repeatable"),  # type: ignore[call-overload]
        (lambda: SqliteSaver(""), 'path: must be the path of a file, such as "threads.db", not the text'),
        (lambda: ServerReviews("https://x.example"), "client: must be a PlacetClient, not the text"),  # type: ignore[arg-type]
        (lambda: EmbeddedReviews(PlacetClient("http://127.0.0.1:1", "k")), "placet: must be a Placet, not"),  # type: ignore[arg-type]
        (lambda: build_reviews(timeout="soon"), "timeout: must be a duration as text, such as 30m or 24h"),
        (lambda: gate_sdk_tools(print), "tools: must be a list of the SDK's tools, such as .function_tool"),
        (lambda: gate_sdk_tools([print]), "tools: must be a list .*, not a builtin_function"),
        (lambda: McpUpstream("x"), "target: must be a function"),  # type: ignore[arg-type]
        (lambda: resume_pending([build_agent()]), "agents: .* not a list"),  # type: ignore[arg-type]
        (lambda: requires_approval(print)("x"), "written with parentheses"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_the_sentence_says_what_to_pass(refused: Callable[[], Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        refused()


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(
    ("hooks", "options"),
    [
        ([], {}),
        ([[HOOK]], {}),
        ([{"execute_sql": True}], {}),
        ([HumanInTheLoopHook], {}),
        ([HOOK], {"saver": "x.db"}),
        ([HOOK], {"saver": None}),
        ([HOOK], {"parallel": "execute_sql"}),
        ([HOOK], {"repeatable": [print]}),
        ([HOOK], {"lease_for": 5}),
        ([HOOK], {"reviews": "https://placet.example"}),
        ([HOOK], {"paralel": ["execute_sql"]}),
    ],
)
def test_every_adapter_refuses_them(adapter: Any, hooks: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        adapter(*hooks, **{"saver": MemorySaver(), **options})
    assert ": " in str(refused.value) or "no option paralel" in str(refused.value)


def test_a_gate_before_an_mcp_server_needs_a_hook() -> None:
    with pytest.raises(ValueError, match="there is no hook, so every call would run"):
        build_proxy(hooks=[])


def test_swapped_arguments_of_resume_are_refused() -> None:
    agent = build_agent(model=Scripted([call("a", "execute_sql", query="1")], "done"))
    waiting: Any = expect_interruption(agent.invoke("go", thread_id="t"))
    thread: Any = "t"
    stub: Any = AgentStub()
    order = r"thread_id: must be text, as in resume\(.*\), not an? \w+"
    for resume in (agent.resume, lambda *given: [*agent.stream_resume(*given)]):
        with pytest.raises(ValueError, match=order):
            resume(waiting.approve_all(), thread)
    with pytest.raises(ValueError, match=order):
        resume_langchain(stub, waiting, thread)
    with pytest.raises(ValueError, match="agent: must be an agent"):
        resume_langchain(thread, stub, waiting)
    for adapter in ADAPTERS[1:]:
        with pytest.raises(ValueError, match=order):
            adapter(HOOK, saver=MemorySaver()).resume_sync(None, waiting, "t")


class AgentStub:
    """What `resume` takes for an agent."""

    def invoke(self, *given: Any) -> None:
        raise AssertionError

    get_state = invoke


@pytest.mark.parametrize(
    "answers", ["approve", b"approve", True, 7, ["approve"], [None], {"a": None}, {"a": True}]
)
def test_answers_of_the_wrong_type_store_nothing(answers: Any) -> None:
    agent = build_agent(model=Scripted([call("a", "execute_sql", query="1")], "done"))
    agent.invoke("go", thread_id="t")
    with pytest.raises(InvalidFeedback):
        agent.resume("t", answers)
    assert expect_interruption(agent.resume("t")).undecided


def test_decisions_of_the_wrong_type_are_refused() -> None:
    waiting: Any = ToolFeedback(id="a", name="b")
    agent = build_agent(model=Scripted([call("a", "execute_sql", query="1")], "done"))
    stopped: Any = expect_interruption(agent.invoke("go", thread_id="t"))
    wrong: list[Callable[[Any], Any]] = [
        lambda value: waiting.reject(value or 1),
        waiting.respond,
        lambda value: waiting.edit(value or 1),
        lambda value: waiting.edit({}, name=value or 1),
        lambda value: stopped.reject_all(value or 1),
        lambda value: stopped.edit_tool("execute_sql", value or 1),
        stopped.approve,
        lambda value: stopped.respond("a", value),
    ]
    for decide in wrong:
        for value in (None, 1, ["a"], object()):
            with pytest.raises(InvalidFeedback):
                decide(value)
