"""Rules that match no tool: a misspelled name must never let the tool run without approval."""

from typing import Any

import pytest

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook, MemorySaver, ReactAgent, ToolConfig
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption


def build(hook: HumanInTheLoopHook, model: Any = None) -> ReactAgent:
    return ReactAgent("clerk", model or Scripted("done"), Office().tools, [hook], MemorySaver())


@pytest.mark.parametrize(
    ("rules", "meant"),
    [
        ({"execute_sqll": True}, "execute_sql"),
        ({"Execute_SQL": True}, "execute_sql"),
        ({" execute_sql": "SQL needs approval"}, "execute_sql"),
        ({"execute_sql": True, "write_flie": ToolConfig()}, "write_file"),
        ({"*": True, "read_dat": False}, "read_data"),
        ({"delete_*": True}, None),
        ({"execute_sql[0]": True}, "execute_sql"),
    ],
    ids=str,
)
def test_a_misspelled_tool_name_is_refused_when_the_agent_is_built(
    rules: dict[str, Any], meant: str | None
) -> None:
    wrong = [*rules][-1]
    wrong = ascii(wrong) if " " in wrong else wrong
    with pytest.raises(HookError) as refused:
        build(HumanInTheLoopHook(rules))
    assert f"{wrong} matches no tool, so it stops nothing." in refused.value.message
    assert (f"Did you mean {meant}?" in refused.value.message) is (meant is not None)
    assert "optional" in refused.value.message


@pytest.mark.parametrize(
    ("rule", "spelled"),
    [
        ("execute_sql\n", r"'execute_sql\n'"),
        ("execute_sql ", "'execute_sql '"),
        ("execute_sql\u200b", r"'execute_sql\u200b'"),
        ("\u0435xecute_sql", r"'\u0435xecute_sql'"),
    ],
)
def test_a_rule_that_looks_like_the_name_of_a_tool_is_spelled_out(rule: str, spelled: str) -> None:
    with pytest.raises(HookError) as refused:
        build(HumanInTheLoopHook({rule: True}))
    assert f"{spelled} matches no tool" in refused.value.message
    assert "Did you mean execute_sql?" in refused.value.message


def test_a_misspelled_exemption_is_refused() -> None:
    with pytest.raises(HookError, match="reed_data matches no tool"):
        build(HumanInTheLoopHook(everything_except=["reed_data"]))


def test_every_rule_without_a_tool_is_named() -> None:
    with pytest.raises(HookError) as refused:
        build(HumanInTheLoopHook({"a": True, "b": True, "execute_sql": True}))
    assert len(refused.value.details["problems"]) == 2


def test_an_optional_rule_may_match_nothing_and_stops_what_it_matches() -> None:
    rules = {"delete_*": True, "execute_sql": True}
    hook = HumanInTheLoopHook(rules, optional=["delete_*", "execute_sql"])
    agent = build(hook, Scripted([call("a", "execute_sql", query="1")], "done"))
    expect_interruption(agent.invoke("go", thread_id="t"))


@pytest.mark.parametrize("optional", [["delete"], "delete_*", ["execute_sql", "x"]])
def test_an_optional_rule_that_does_not_exist_is_refused(optional: Any) -> None:
    with pytest.raises(ValueError, match="optional"):
        HumanInTheLoopHook({"delete_*": True, "execute_sql": True}, optional=optional)


@pytest.mark.parametrize("rules", [None, {}])
def test_a_hook_without_rules_is_refused(rules: Any) -> None:
    with pytest.raises(ValueError, match="every call would run without approval"):
        HumanInTheLoopHook(rules)


@pytest.mark.parametrize("key", [Office.execute_sql, 7, "", None, ("execute_sql",)])
def test_a_rule_for_something_that_is_not_a_name_is_refused(key: Any) -> None:
    with pytest.raises(ValueError, match="is not the name of a tool"):
        HumanInTheLoopHook({key: True})


def test_everything_needs_approval_even_in_an_agent_without_tools() -> None:
    ReactAgent("clerk", Scripted("done"), [], [HumanInTheLoopHook(everything_except=[])], MemorySaver())


def make_clerk(*hooks: HumanInTheLoopHook) -> ReactAgent:
    return ReactAgent("clerk", Scripted("done"), Office().tools, hooks, MemorySaver())


def make_chief(*tools: Any, hook: HumanInTheLoopHook) -> ReactAgent:
    return ReactAgent("chief", Scripted("done"), [Office().execute_sql, *tools], [hook], MemorySaver())


GATED = HumanInTheLoopHook({"execute_sql": True})


def test_an_inner_agent_without_the_hook_is_refused() -> None:
    with pytest.raises(HookError, match="the inner agent clerk would run them without"):
        make_chief(make_clerk().as_tool("Helps."), hook=GATED)


def test_an_agent_inside_an_inner_agent_without_the_hook_is_refused() -> None:
    middle = ReactAgent("middle", Scripted("done"), [make_clerk().as_tool("")], saver=MemorySaver())
    with pytest.raises(HookError, match="the inner agent clerk"):
        make_chief(middle.as_tool("Helps."), hook=GATED)


def test_an_inner_agent_that_decides_about_the_tool_itself_is_accepted() -> None:
    make_chief(make_clerk(GATED).as_tool("Helps."), hook=GATED)
    exempt = HumanInTheLoopHook({"write_file": True, "execute_sql": False})
    make_chief(make_clerk(exempt).as_tool("Helps."), hook=GATED)


def test_a_rule_for_a_tool_that_only_an_inner_agent_has_is_refused() -> None:
    with pytest.raises(HookError, match="write_file matches no tool"):
        make_chief(make_clerk(GATED).as_tool("Helps."), hook=HumanInTheLoopHook({"write_file": True}))
