"""Reviews whose cases are files: a test decides them, and every process with the folder sees them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from placet.hook.case_outcome import CaseOutcome
from placet.hook.feedback import CallDecision
from placet.hook.interruption import InterruptionMetadata
from placet.testing.steps import STEPS
from placet.testing.waiting import wait_until

Receipts = list[tuple[str, str]]
"""Tool and outcome of each reported call."""


class FileReviews:
    """Opens cases in a folder. A case is decided by the names of its tools."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "cases"
        self._folder.mkdir(exist_ok=True)
        self._receipts = folder / "receipts.jsonl"

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> dict[str, Any]:
        """Open the case, once for each interruption and attempt."""
        case_id = f"{interruption.id}-{attempt}"
        calls = {call.id: call.name for call in interruption.undecided}
        self._write(case_id, "calls", calls)
        return {"case_id": case_id, "review_url": f"https://placet.example/{case_id}", "expires_at": ""}

    def poll_case(self, case: Mapping[str, Any]) -> CaseOutcome | None:
        """Return the decisions, or None while the case is open."""
        decisions = self._read(case["case_id"], "decisions")
        return None if decisions is None else CaseOutcome(status="decided", decisions=decisions)

    def withdraw(self, case: Mapping[str, Any], reason: str) -> None:
        """Withdraw the case; an answer to it changes nothing any more."""
        self._write(case["case_id"], "withdrawn", reason)

    def wait_for_case(self, case: Mapping[str, Any], at_most: float) -> None:
        """Return when the case is decided, or after `at_most` seconds."""
        self._write(case["case_id"], "followed", True)
        with suppress(TimeoutError):
            wait_until(lambda: self._read(case["case_id"], "decisions") is not None, at_most)

    def report_calls(self, case: Mapping[str, Any], receipts: Sequence[Mapping[str, str]]) -> None:
        """Record what became of calls."""
        STEPS.take()
        names = self._read(case["case_id"], "calls")
        lines = [json.dumps([names[receipt["call_id"]], receipt["outcome"]]) + "\n" for receipt in receipts]
        with self._receipts.open("a", encoding="utf-8") as reported:
            reported.writelines(lines)
        STEPS.take()

    def decide(self, decisions: Mapping[str, CallDecision]) -> None:
        """Decide every open case with calls of these tools: tool -> decision."""
        for case_id, calls in self._list_open():
            said = {call_id: decisions[name] for call_id, name in calls.items() if name in decisions}
            if said:
                self._write(case_id, "decisions", said)

    def decide_when_followed(self, decisions: Mapping[str, CallDecision]) -> None:
        """Decide every open case as soon as somebody waits for all of them."""
        open_cases = [case_id for case_id, _ in self._list_open()]
        wait_until(lambda: all(self._read(case_id, "followed") for case_id in open_cases))
        self.decide(decisions)

    def read_receipts(self) -> Receipts:
        """Return what was reported so far, in order."""
        if not self._receipts.exists():
            return []
        lines = self._receipts.read_text("utf-8").splitlines()
        return [(name, outcome) for name, outcome in map(json.loads, lines)]

    def _list_open(self) -> Iterator[tuple[str, dict[str, str]]]:
        for path in sorted(self._folder.glob("*.calls")):
            case_id = path.name.removesuffix(".calls")
            if self._read(case_id, "decisions") is None and self._read(case_id, "withdrawn") is None:
                yield case_id, self._read(case_id, "calls")

    def _write(self, case_id: str, name: str, value: Any) -> None:
        path = self._folder / f"{case_id}.{name}"
        if not path.exists():
            new = path.with_suffix(f".{id(value)}.new")
            new.write_text(json.dumps(value), "utf-8")
            new.replace(path)

    def _read(self, case_id: str, name: str) -> Any:
        path = self._folder / f"{case_id}.{name}"
        return json.loads(path.read_text("utf-8")) if path.exists() else None
