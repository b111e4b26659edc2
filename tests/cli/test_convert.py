"""`placet convert`: reviews in the words of other protocols."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import placet
from tests.protocol.test_negotiation import HITL, REQUIREMENT, completed

BODY = {"status": "human_input_required", "message": "500 EUR?", "hitl": HITL}


def convert(folder: Path, protocol: str, value: Any, *options: str) -> Any:
    (folder / "in.json").write_text(json.dumps(value))
    run = placet(folder, "convert", protocol, "in.json", *options)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.spec("14.1-input-required")
def test_each_protocol_has_a_command(tmp_path: Path) -> None:
    task = convert(tmp_path, "a2a", BODY, "--task-id", "t1")
    assert task["metadata"]["hitl"] == HITL
    assert convert(tmp_path, "a2a", task) == HITL
    assert convert(tmp_path, "a2a", completed("approve")) == {"state": "working"}
    assert convert(tmp_path, "adl", BODY)["bridge"]["hitl_poll_url"] == HITL["poll_url"]
    assert convert(tmp_path, "adl", completed("reject"))["response"] == "DENY"
    assert convert(tmp_path, "wdl", completed("confirm")) == {"state": "MATCH"}
    assert convert(tmp_path, "wdl", REQUIREMENT)["type"] == "confirmation"


def test_what_cannot_be_converted_says_why(tmp_path: Path) -> None:
    for text in ("[1]", "{", "{}", '{"status":"completed"}'):
        (tmp_path / "in.json").write_text(text)
        run = placet(tmp_path, "convert", "adl", "in.json")
        assert run.returncode != 0
        assert "Traceback" not in run.stderr
