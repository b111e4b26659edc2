"""Values are changed by making new ones, and threads are written as one ASCII text."""

import json
import math
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from placet.errors import InvalidFeedback
from placet.hook import FeedbackResult, ToolFeedback
from placet.hook.checkpoint import Checkpoint
from placet.hook.feedback import Verdict
from placet.hook.frozen_values import replace
from placet.hook.interruption import create_interruption
from placet.hook.json_text import decode_json, digest_json, encode_json
from placet.testing.threads import create_full_checkpoint, create_thread

CHANGES: dict[str, Any] = {
    "agent": "another",
    "messages": ({"role": "user", "content": "é"},),
    "interruption": None,
    "verdicts": {"c": Verdict(decision=FeedbackResult.REJECTED, reason="ü")},
    "started": ("c",),
    "results": {"c": "done"},
    "tools": {"pay": None},
    "queued": ("more",),
    "resumed": {"int_1": 2},
    "case": {"case_id": "x"},
}
EMPTIED: dict[str, Any] = {
    name: type(value)() if value is not None else None for name, value in CHANGES.items()
} | {"case": None}


def test_a_changed_value_is_another_one_and_the_first_stays_as_it_was() -> None:
    before = Checkpoint(thread_id="t", messages=({"role": "user"},))
    after = replace(before, rev=4, stage="paused")
    assert (after.rev, after.stage, after.messages) == (4, "paused", before.messages)
    assert (before.rev, before.stage) == (0, "ready")
    with pytest.raises(AttributeError):
        after.rev = 5  # type: ignore[misc]


def test_a_changed_value_is_checked_as_a_new_one_is() -> None:
    waiting = ToolFeedback(id="c", name="pay", arguments={"cents": 1})
    assert replace(waiting, result="approve").result is FeedbackResult.APPROVED
    assert replace(waiting, arguments='{"cents": 2}').arguments == {"cents": 2}
    with pytest.raises(InvalidFeedback):
        replace(waiting, result="perhaps")
    with pytest.raises(TypeError, match="nothing"):
        replace(waiting, nothing=1)


@pytest.mark.parametrize(
    "value",
    [
        {"plain": [1, True, None, 1.5, "text"]},
        {"é": "ü\u2028\x00"},
        {"half": "\ud800"},
        {"big": 2**200},
        {"word": FeedbackResult.APPROVED},
        {"deep": [[[[{"a": ()}]]]]},
    ],
    ids=ascii,
)
def test_whatever_is_written_is_ascii_and_read_back_as_json_would(value: object) -> None:
    written = encode_json(value)
    assert written.isascii()
    assert "\n" not in written
    assert decode_json(written) == json.loads(json.dumps(value))


def test_value_that_is_not_json_is_not_written() -> None:
    with pytest.raises(TypeError):
        encode_json({"what": object()})
    with pytest.raises(ValueError, match="Expecting"):
        decode_json("{nothing}")


def test_a_fingerprint_does_not_depend_on_the_order_of_members() -> None:
    assert digest_json({"a": 1, "b": [2]}) == digest_json({"b": [2], "a": 1})
    assert digest_json({"a": 1}) != digest_json({"a": 2})
    assert digest_json({"a": "\ud800"}) != digest_json({"a": "\ud801"})
    assert digest_json({"a": math.inf, "b": object}) == digest_json({"b": object, "a": math.inf})


@pytest.mark.parametrize("read", [create_full_checkpoint("t"), create_thread("t"), Checkpoint(thread_id="t")])
@pytest.mark.parametrize("changed", [(), *((name,) for name in CHANGES), tuple(CHANGES)])
def test_a_thread_that_was_read_and_changed_is_written_as_it_is_now(
    read: Checkpoint, changed: tuple[str, ...]
) -> None:
    again = Checkpoint.from_json(read.to_json(), thread_id="t", rev=read.rev, stage=read.stage)
    for values in (CHANGES, EMPTIED):
        now = again.next(**{name: values[name] for name in changed})
        fresh = Checkpoint(**{field.name: getattr(now, field.name) for field in fields(Checkpoint)})
        assert json.loads(now.to_json()) == json.loads(fresh.to_json())


def test_a_thread_kept_by_an_earlier_version_is_read_as_it_was() -> None:
    kept = create_full_checkpoint("t")
    assert kept.interruption is not None
    spelled = {**json.loads(kept.to_json()), "interruption": kept.interruption.to_dict()}
    assert Checkpoint.from_json(json.dumps(spelled), thread_id="t", rev=kept.rev, stage=kept.stage) == kept


def test_calls_of_one_tool_share_its_schema_and_others_keep_their_own() -> None:
    schemas: list[dict[str, Any] | None] = [{"type": "object"}, {"type": "object", "required": []}, None]
    calls = [
        ToolFeedback(id=f"{number}", name="pay", schema=schema, path=("inside",), high_risk=True)
        for number, schema in enumerate([schemas[0], *schemas, schemas[0]])
    ]
    now = datetime(2026, 11, 15, tzinfo=UTC)
    waiting = create_interruption(
        "int_1", thread_id="elsewhere", turn=2, feedbacks=calls, automatic=[], now=now, default="hold"
    )
    kept = Checkpoint(thread_id="t", interruption=waiting)
    read = Checkpoint.from_json(kept.to_json(), thread_id="t", rev=0, stage="ready")
    assert read.interruption == replace(waiting, state={"messages": ()})


@pytest.mark.parametrize("place", [(), ("tool_feedbacks", 0)])
def test_unknown_fields_of_waiting_calls_are_refused(place: tuple[Any, ...]) -> None:
    spelled = json.loads(create_full_checkpoint("t").to_json())
    told = spelled["interruption"]
    for step in place:
        told = told[step]
    told["unless"] = "Tuesday"
    with pytest.raises(TypeError, match="unless"):
        Checkpoint.from_json(json.dumps(spelled), thread_id="t", rev=1, stage="paused")
