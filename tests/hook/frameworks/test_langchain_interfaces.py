"""LangChain's own interfaces, agent-chat-ui and agent-inbox, show what waits here and answer it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from langchain.agents.middleware.human_in_the_loop import HITLRequest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import TypeAdapter, ValidationError

from placet.errors import ThreadPaused
from placet.hook import HumanInTheLoopHook, MemoryGrants, ToolCall, ToolConfig
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of, interruptions_of, resume
from placet.hook.frameworks.langchain.messages import build_call_key, build_turn_key, find_thread_id
from placet.hook.result_texts import CANCELLED_BY_MESSAGE
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, list_results, thread_config
from tests.hook.frameworks.test_langchain_traps import MAIL, SQL, Office, user_message

READ = ToolCall(id="c3", name="read_data", arguments={"table": "t"})
THREAD = thread_config("t")
APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "not today"}


def is_shown_by_chat_ui(value: Any) -> bool:
    """Return whether agent-chat-ui shows an interrupt with this value, by its documented schema."""
    requests, configs = value.get("action_requests"), value.get("review_configs")
    return (
        bool(requests)
        and bool(configs)
        and all(isinstance(each["name"], str) and isinstance(each["args"], Mapping) for each in requests)
        and all(
            isinstance(each["action_name"], str) and isinstance(each["allowed_decisions"], list)
            for each in configs
        )
    )


def show_in_agent_inbox(value: Any) -> dict[str, Any] | None:
    """Return what agent-inbox shows: one call, with the buttons it offers; None for an improper schema."""
    if not value.get("action_requests"):
        return None
    request, allowed = value["action_requests"][0], value["review_configs"][0]["allowed_decisions"]
    return {
        "action": request["name"],
        "args": request.get("arguments", {}),
        "accept": "approve" in allowed,
        "edit": "edit" in allowed,
        "respond": "reject" in allowed,
    }


def accept(call: ToolCall) -> dict[str, Any]:
    """Return what agent-inbox sends for a call that may be edited and was accepted as it is."""
    return {"type": "accept", "args": {"action": call.name, "args": call.arguments}}


@pytest.fixture
def office() -> Office:
    return Office()


def start(agent: Any) -> Sequence[Any]:
    interrupts: Sequence[Any] = agent.invoke(GO, THREAD)["__interrupt__"]
    return interrupts


def answer(agent: Any, resumed: Any) -> Any:
    return agent.invoke(Command(resume=resumed), THREAD)


def agent_per_call(office: Office, *turns: tuple[ToolCall, ...], **named: Any) -> Any:
    return office.agent(*turns, middleware=[office.approval(interrupt_mode="per_call", **named)])


def test_both_interfaces_show_the_waiting_calls(office: Office) -> None:
    [asked] = start(office.agent((SQL, MAIL)))
    TypeAdapter(HITLRequest).validate_python(asked.value)
    assert is_shown_by_chat_ui(asked.value)
    assert [each["name"] for each in asked.value["action_requests"]] == ["execute_sql", "send_email"]
    assert show_in_agent_inbox(asked.value) == {
        "action": "execute_sql",
        "args": {"query": "DELETE"},
        "accept": True,
        "edit": True,
        "respond": True,
    }


def test_decisions_belong_to_the_calls_at_their_positions(office: Office) -> None:
    agent = office.agent((SQL, MAIL))
    start(agent)
    edit = {"type": "edit", "edited_action": {"name": "execute_sql", "args": {"query": "SELECT"}}}
    final = answer(agent, {"decisions": [edit, REJECT]})
    assert office.ran == ["SELECT"]
    [(_, first), (_, second)] = list_results(final["messages"])
    assert "SELECT" in first
    assert "not today" in second


def test_a_person_responds_in_the_tools_place(office: Office) -> None:
    office.hook = HumanInTheLoopHook({"execute_sql": ToolConfig(allowed_decisions=("respond",))})
    agent = office.agent((SQL,))
    start(agent)
    final = answer(agent, {"decisions": [{"type": "respond", "message": "3 rows"}]})
    assert (office.ran, list_results(final["messages"])) == ([], [("c1", "3 rows")])


@pytest.mark.parametrize(
    "wrong",
    [
        {"decisions": [APPROVE]},
        {"decisions": [APPROVE] * 3},
        {"decisions": [APPROVE, {"type": "ignore", "args": None, "message": "x"}]},
        {"decisions": [APPROVE, {"type": "respond", "message": "done"}]},
        {"decisions": [APPROVE, {"type": "respond"}]},
        {"decisions": [APPROVE, {"type": "edit"}]},
        {"decisions": [APPROVE, {"type": "edit", "edited_action": {"name": "send_email", "args": "all"}}]},
        {"decisions": [APPROVE, {"type": "edit", "edited_action": {"name": "no_tool", "args": {}}}]},
        {"decisions": [APPROVE, {"type": "edit", "edited_action": {"name": "send_email", "args": {}}}]},
        {"decisions": [APPROVE, {"type": "approve", "edited_action": {"name": "send_email", "args": {}}}]},
        {"decisions": [APPROVE, {"type": "reject", "message": 1}]},
        {"decisions": [APPROVE, {"type": ["approve"]}]},
        {"decisions": [APPROVE, None]},
        {"decisions": [{**APPROVE, "tool_call_id": "c2"}, {**APPROVE, "tool_call_id": "c1"}]},
        {"decisions": [APPROVE, APPROVE], "digest": "sha256:0"},
        {"decisions": [APPROVE, APPROVE], "also": 1},
        APPROVE,
        [APPROVE] * 3,
        [accept(MAIL)],
        [{"type": "accept", "args": {"action": "execute_sql", "args": {"query": "SELECT"}}}],
        [],
    ],
    ids=str,
)
def test_wrong_decisions_run_nothing_and_the_thread_can_still_be_answered(office: Office, wrong: Any) -> None:
    agent = office.agent((SQL, MAIL))
    start(agent)
    for _ in range(2):
        with pytest.raises(ValidationError, match=r"othing was stored|must be text|has no member"):
            answer(agent, wrong)
    assert office.ran == []
    answer(agent, {"decisions": [APPROVE, REJECT]})
    assert office.ran == ["DELETE"]


def test_agent_inbox_answers_one_call_after_the_other(office: Office) -> None:
    agent = office.agent((SQL, MAIL))
    start(agent)
    [asked] = answer(agent, [accept(SQL)])["__interrupt__"]
    assert show_in_agent_inbox(asked.value) == {
        "action": "send_email",
        "args": {"to": "all"},
        "accept": True,
        "edit": True,
        "respond": True,
    }
    assert office.ran == []
    for late in ([accept(SQL)], [{"type": "accept", "args": None}]):
        with pytest.raises(ValidationError, match="Nothing was stored"):
            answer(agent, late)
    final = answer(agent, [{"type": "response", "args": "not today"}])
    assert office.ran == ["DELETE"]
    assert "not today" in list_results(final["messages"])[1][1]


def test_agent_inbox_edits_a_call(office: Office) -> None:
    agent = office.agent((SQL,))
    start(agent)
    answer(agent, [{"type": "edit", "args": {"action": "execute_sql", "args": {"query": "SELECT"}}}])
    assert office.ran == ["SELECT"]


def test_an_edit_into_another_reviewed_tool_asks_again_and_old_decisions_do_not_count(office: Office) -> None:
    agent = office.agent((SQL,))
    start(agent)
    mail = {"type": "edit", "edited_action": {"name": "send_email", "args": {"to": "all"}}}
    [again] = answer(agent, {"decisions": [mail]})["__interrupt__"]
    assert [each["name"] for each in again.value["action_requests"]] == ["send_email"]
    for late in (
        {"decisions": [APPROVE]},
        {"decisions": [mail]},
        APPROVE,
        [{"type": "accept", "args": None}],
    ):
        with pytest.raises(ValidationError, match="digest"):
            answer(agent, late)
    assert office.ran == []
    answer(agent, {"decisions": [APPROVE], "digest": again.value["digest"]})
    assert office.ran == ["all"]


def test_an_edit_that_changes_nothing_approves(office: Office) -> None:
    agent = office.agent((SQL,))
    start(agent)
    same = {"type": "edit", "edited_action": {"name": "execute_sql", "args": {"query": "DELETE"}}}
    assert "DELETE" in list_results(answer(agent, {"decisions": [same]})["messages"])[0][1]
    assert office.ran == ["DELETE"]


def test_a_call_whose_grant_ended_is_not_decided_by_an_old_decision() -> None:
    office = Office()
    grants = MemoryGrants(clock=office.clock)
    grant = grants.add(MAIL, agent="agent", uses=1, lasts_for=timedelta(hours=1), granted_by="Ann")
    agent = office.agent((SQL, MAIL), middleware=[office.approval(grants=grants)])
    [asked] = start(agent)
    assert [each["name"] for each in asked.value["action_requests"]] == ["execute_sql"]
    grants.revoke(grant.id)
    [again] = answer(agent, {"decisions": [APPROVE]})["__interrupt__"]
    assert [each["name"] for each in again.value["action_requests"]] == ["send_email"]
    with pytest.raises(ValidationError, match="digest"):
        answer(agent, {"decisions": [APPROVE]})
    assert office.ran == []


def test_decisions_are_taken_after_a_restart(office: Office) -> None:
    checkpointer = InMemorySaver()
    start(office.agent((SQL, MAIL), checkpointer=checkpointer))
    model = ScriptedModel(scene=Scene(turns=((SQL, MAIL),)))
    reborn = office.agent(checkpointer=checkpointer)
    office.model.scene = model.scene
    answer(reborn, {"decisions": [APPROVE, REJECT]})
    assert office.ran == ["DELETE"]


def test_each_call_interrupts_for_itself_and_the_others_run(office: Office) -> None:
    office.hook = HumanInTheLoopHook({"execute_sql": True, "send_email": lambda_config()})
    agent = agent_per_call(office, (SQL, MAIL, ToolCall(id="c3", name="send_email", arguments={"to": "ann"})))
    asked = {each.value["tool_call_id"]: each for each in start(agent)}
    assert {key: (each.value["type"], each.value["name"]) for key, each in asked.items()} == {
        "c1": ("tool_approval", "execute_sql"),
        "c2": ("tool_approval", "send_email"),
    }
    assert all(is_shown_by_chat_ui(each.value) for each in asked.values())
    assert office.ran == ["ann"]
    with pytest.raises(RuntimeError, match="interrupt id"):
        answer(agent, {"decisions": [APPROVE]})
    for wrong in ({"type": "respond", "message": "x"}, {"decisions": [APPROVE, APPROVE]}, {"type": "edit"}):
        with pytest.raises(ValidationError):
            answer(agent, {asked["c1"].id: wrong})
    [left] = answer(agent, {asked["c1"].id: APPROVE})["__interrupt__"]
    assert left.id == asked["c2"].id
    final = answer(agent, {left.id: REJECT})
    assert office.ran == ["ann", "DELETE"]
    assert [call_id for call_id, _ in list_results(final["messages"])] == ["c1", "c2", "c3"]


def lambda_config() -> ToolConfig:
    return ToolConfig(when=lambda call, state: call.arguments["to"] == "all")


def test_calls_that_interrupt_for_themselves_are_answered_together(office: Office) -> None:
    agent = agent_per_call(office, (SQL, MAIL))
    stopped = interruptions_of(agent.invoke(GO, THREAD))
    assert sorted(call.id for each in stopped for call in each.undecided) == ["c1", "c2"]
    assert interruption_of(resume(agent, "t", {"c1": "approve", "c2": "reject"})) is None
    assert office.ran == ["DELETE"]


@pytest.mark.parametrize("policy", ["refuse", "queue", "cancel"])
def test_message_while_calls_wait_for_themselves(policy: Any) -> None:
    office = Office(on_new_message=policy)
    agent = agent_per_call(office, (SQL, MAIL))
    start(agent)
    if policy == "refuse":
        with pytest.raises(ThreadPaused):
            agent.invoke(user_message("wait"), THREAD)
        both: Any = {"c1": "approve", "c2": "reject"}
        assert len(interruptions_of(resume(agent, "t", both))) == 2, "each call asks again"
        resume(agent, "t", both)
        assert office.ran == ["DELETE"]
    elif policy == "queue":
        assert len(interruptions_of(agent.invoke(user_message("wait"), THREAD))) == 2
        resume(agent, "t", {"c1": "approve", "c2": "reject"})
        assert office.ran == ["DELETE"]
    else:
        final = agent.invoke(user_message("wait"), THREAD)
        assert [text for _, text in list_results(final["messages"])] == [CANCELLED_BY_MESSAGE] * 2
        assert office.ran == []


def test_unknown_mode_is_refused(office: Office) -> None:
    mode: Any = "sometimes"
    with pytest.raises(ValueError, match="interrupt_mode"):
        ApprovalMiddleware(office.hook, saver=office.saver, interrupt_mode=mode)


@pytest.mark.parametrize("call_id", ["c1", "a/b", "", "#"])
def test_the_key_of_a_call_names_its_thread(call_id: str) -> None:
    key = build_call_key(build_turn_key("user/7", "", "run"), {"id": call_id})
    assert find_thread_id(key) == "user/7"
