"""Draws the states of relayed tasks and of holds into the docs, from the tables in the code."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from placet.cases.machine import Stay
from placet.relay import hold, task
from scripts.drawing import code, table


def draw_task() -> str:
    """Every command in every status of a task."""
    return _draw(task.TRANSITIONS, list(task.TaskStatus), task.TASK_COMMANDS)


def draw_hold() -> str:
    """Every command in every stage of a hold."""
    return _draw(hold.TRANSITIONS, list(hold.HoldStage), hold.HOLD_COMMANDS)


def _draw(rules: Mapping[Any, Any], states: Sequence[StrEnum], commands: Sequence[type[Any]]) -> str:
    rows = [
        [f"**{command.__name__}**", *(_outcome(state, rules[state, command]) for state in states)]
        for command in commands
    ]
    meanings = "\n".join(f"- **{command.__name__}**: {_first_line(command)}" for command in commands)
    return f"{table(['Command', *map(code, states)], rows)}\n\n{meanings}"


def _outcome(state: StrEnum, rule: object) -> str:
    if isinstance(rule, Stay):
        return "–"
    if not isinstance(rule, StrEnum):
        return "refused"
    return "recorded" if rule is state else f"→ {code(rule)}"


def _first_line(command: type[Any]) -> str:
    return (command.__doc__ or "").strip().splitlines()[0]
