"""Everyone whose tool approval is measured does the whole of it."""

from pathlib import Path

import pytest

from bench.hook import gate_command, importing
from bench.hook.measure import list_contestants
from bench.hook.scene import LAST_WORDS, Setting


@pytest.mark.parametrize("calls", [1, 4])
@pytest.mark.parametrize("durable", [False, True])
def test_every_contestant_is_stopped_approved_and_comes_to_the_end(
    tmp_path: Path, durable: bool, calls: int
) -> None:
    setting = Setting(calls=calls, folder=tmp_path if durable else None)
    with setting.cleanup:
        ended = {contestant.name: contestant.cycle() for contestant in list_contestants(setting)}
    assert len(ended) == 10
    assert set(ended.values()) == {LAST_WORDS}


def test_one_framework_can_be_measured_alone() -> None:
    setting = Setting(calls=1, folder=None)
    with setting.cleanup:
        found = [contestant.name for contestant in list_contestants(setting, ["hook_langchain"])]
    assert found == ["LangChain", "LangChain with Placet"]


def test_the_gate_answers_a_call_that_its_policy_allows(tmp_path: Path) -> None:
    assert gate_command.measure(tmp_path, calls=1).cpu_ms > 0


def test_importing_the_hook_brings_no_package_along() -> None:
    assert importing.measure(interpreters=1).cpu_ms > 0
