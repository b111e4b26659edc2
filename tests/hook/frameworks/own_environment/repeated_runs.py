"""The harness of frameworks whose runs cannot stop and continue: each process makes the whole run again.

A run ends when its model is asked again while a call waits, as if its process had died while it waited.
"""

import json
import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from placet.errors import HookError, NothingToResume, ThreadBusy, ThreadPaused
from placet.hook import InterruptionMetadata, ToolCall
from placet.hook.answer_validation import Feedback, validate_answers
from placet.hook.feedback import DecisionMembers, ToolFeedback
from placet.hook.frameworks.waiting_calls import CALL_ID, DecidedCall, WaitingCalls
from placet.testing.approvals import Harness, Scene
from placet.testing.steps import STEPS
from placet.testing.waiting import WAIT_LIMIT_S
from tests.hook.frameworks.answered_calls import parse_verdict

RUNNING = threading.Lock()
POLL_S = 0.05


class StillWaiting(HookError):
    """Nobody has decided this call: the run is left."""


class RunRecorder:
    """Mixed into an adapter: keeps what it raised, which most of these frameworks catch."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.errors: list[Exception] = []

    def decide(self, *args: Any) -> DecidedCall:
        return cast(DecidedCall, self._record("decide", args))

    def finish(self, *args: Any) -> str:
        return cast(str, self._record("finish", args))

    def fail(self, *args: Any) -> str:
        return cast(str, self._record("fail", args))

    def _record(self, name: str, args: Any) -> Any:
        try:
            return getattr(super(), name)(*args)
        except Exception as error:
            self.errors.append(error)
            raise


class RepeatedRunHarness(Harness):
    """An agent that keeps of its thread only which calls wait and what its last run read."""

    adapter: type[Any]
    """The adapter with a RunRecorder."""
    decides_apart = True
    repeats_runs = True
    renames = False
    children = "wait"

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        self.approvals: list[Any] = []

    @abstractmethod
    def run_agent(self, approval: Any) -> Mapping[str, str]:
        """Run the agent under the approval, to its end; return what its model read of each call."""

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        if self._path(thread_id).exists():
            raise ThreadPaused
        return self._run(thread_id, {"keys": {}, "waiting": [], "results": {}, "answered": [], "over": False})

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        if not self._path(thread_id).exists():
            raise NothingToResume
        kept = self._read(thread_id)
        approval = self.build_approval(thread_id)
        if kept["over"]:
            self._answer_late(approval, kept, feedback)
            if isinstance(feedback, InterruptionMetadata) and feedback.id in kept["answered"]:
                return None
            raise NothingToResume
        waiting = self._find_waiting(approval, kept)
        if waiting is not None:
            kept["answered"].append(waiting.id)
            for call_id, said in self._validate(waiting, feedback).items():
                approval.approver.answer(kept["keys"][call_id], said)
            waiting = self._find_waiting(approval, kept)
        return waiting if waiting and waiting.undecided else self._run(thread_id, kept)

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        stopped = self.start(thread_id)
        return [] if stopped is None else [stopped]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        results = self._read(thread_id)["results"]
        return [(call.id, results[call.id]) for call in self.calls if call.id in results]

    def send_receipts(self) -> None:
        for approval in self.approvals:
            assert approval.approver.gate.outbox.wait_until_sent(WAIT_LIMIT_S)
        self.build_approval("receipts").approver.gate.outbox.send_stored()

    @property
    def calls(self) -> list[ToolCall]:
        return [call for turn in self.scene.turns for call in turn]

    def build_approval(self, thread_id: str) -> Any:
        options: Any = {"saver": self.saver, "reviews": self.reviews, "clock": self.clock}
        options |= {"ask": leave_waiting, "poll_interval": POLL_S}
        self.approvals.append(self.adapter(self.hook, run_id=thread_id, **options))
        return self.approvals[-1]

    def find_call_id(self, name: str, arguments: Any) -> str:
        """Return the id that the model gave this call: none of a scene's calls equals another."""
        return next(call.id for call in self.calls if (call.name, call.arguments) == (name, arguments))

    def _run(self, thread_id: str, kept: dict[str, Any]) -> InterruptionMetadata | None:
        if not RUNNING.acquire(blocking=False):  # CrewAI's hooks hold for the whole process
            raise ThreadBusy
        try:
            approval = self.build_approval(thread_id)
            results = self.run_agent(approval)
        finally:
            RUNNING.release()
        if wrong := [error for error in approval.errors if not isinstance(error, StillWaiting)]:
            raise wrong[0]
        asked = {self._find_id_of(stopped): stopped.thread_id for stopped in approval.waiting()}
        kept |= {
            "keys": {**kept["keys"], **asked},
            "waiting": [call.id for call in self.calls if call.id in asked],
            "results": {call_id: text for call_id, text in results.items() if call_id not in asked},
            "over": not asked,
        }
        self._keep(thread_id, kept)
        return self._find_waiting(approval, kept)

    def _find_id_of(self, stopped: InterruptionMetadata) -> str:
        [call] = stopped.tool_feedbacks
        return self.find_call_id(call.name, call.arguments)

    def _find_waiting(self, approval: WaitingCalls, kept: dict[str, Any]) -> InterruptionMetadata | None:
        """Return the calls with which the last run stopped as one interruption, or None."""
        found = [
            (call_id, stopped)
            for call_id in kept["waiting"]
            if (stopped := approval.approver.waiting(kept["keys"][call_id])) is not None
        ]
        if not found:
            return None
        first = found[0][1]
        turn = next(turn for turn in self.scene.turns if any(call.id == found[0][0] for call in turn))
        digest = sha256("".join(stopped.digest for _, stopped in found).encode()).hexdigest()
        return replace(
            first,
            id=f"turn_{digest}",
            digest=digest,
            tool_feedbacks=tuple(replace(stopped.tool_feedbacks[0], id=name) for name, stopped in found),
            tools_automatically_approved=tuple(call for call in turn if call.id not in kept["keys"]),
            expires_at=min((each.expires_at for _, each in found if each.expires_at), default=None),
        )

    def _validate(
        self, waiting: InterruptionMetadata, feedback: Feedback | None
    ) -> dict[str, Feedback | None]:
        """Return the new answers; one that is wrong refuses them all."""
        if feedback is None:
            return dict.fromkeys(call.id for call in waiting.undecided)
        decided = {call.id: parse_verdict(call) for call in waiting.tool_feedbacks if call.result is not None}
        verdicts = validate_answers(waiting, feedback, decided=decided, now=self.clock())
        return {
            call_id: {CALL_ID: cast(DecisionMembers, verdict.to_dict())}
            for call_id, verdict in verdicts.items()
            if call_id not in decided
        }

    def _answer_late(self, approval: WaitingCalls, kept: dict[str, Any], feedback: Feedback | None) -> None:
        if isinstance(feedback, InterruptionMetadata):
            feedback = [call for call in feedback.tool_feedbacks if call.result is not None]
        said: Any = feedback if isinstance(feedback, Mapping) else {each.id: each for each in feedback or ()}
        for call_id, answer in said.items():
            if call_id in kept["keys"]:
                one: Any = (
                    [replace(answer, id=CALL_ID)] if isinstance(answer, ToolFeedback) else {CALL_ID: answer}
                )
                approval.approver.answer(kept["keys"][call_id], one)

    def _read(self, thread_id: str) -> dict[str, Any]:
        path = self._path(thread_id)
        return dict(json.loads(path.read_text())) if path.exists() else {"results": {}}

    def _keep(self, thread_id: str, kept: dict[str, Any]) -> None:
        """Write all of it, or nothing if the process dies."""
        STEPS.take()
        new = self._path(thread_id).with_suffix(f".{uuid4().hex}")
        new.write_text(json.dumps(kept))
        new.replace(self._path(thread_id))

    def _path(self, thread_id: str) -> Path:
        return self.folder / f"{sha256(thread_id.encode()).hexdigest()}.json"


def leave_waiting(stopped: InterruptionMetadata) -> Feedback | None:
    """Leave the run: another one will find the decision."""
    raise StillWaiting(f"{stopped.undecided[0].name} waits.")
