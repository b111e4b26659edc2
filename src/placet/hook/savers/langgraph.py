"""Threads in any LangGraph checkpointer, with claims and leases in a saver beside it."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint

from placet.errors import HookError, Unavailable
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.savers.encoding import file_name_for, read_saved, to_micros
from placet.hook.savers.saver import SavedCheckpoint, Saver

CHANNEL = "placet"
TEXT_THREAD = "langgraph_thread"
READ_ATTEMPTS = 5


class LangGraphSaver(Saver):
    """Keeps what threads say in `checkpointer`, and which of it counts in `claims`; needs `langgraph`.

    A LangGraph checkpointer has no compare-and-set, so it cannot decide who was first. `claims`, any other
    saver, does: it holds each thread's revision, stage and lease, and the place of its text. A text is
    written before its claim, and counts only if the claim succeeds.

    What holds: all that `claims` promises about one winner, leases, order, retention and the clock, between
    as many processes as share both storages. What does not: a thread is as durable as the weaker of the two;
    the two cannot be backed up as of one moment; a process that is killed between its two writes leaves a
    text behind that nothing refers to; and each checkpoint is a LangGraph thread of its own, named
    `placet:…`, since a checkpointer can forget whole threads only.
    """

    def __init__(self, checkpointer: BaseCheckpointSaver[Any], *, claims: Saver) -> None:
        self._checkpointer = checkpointer
        self._claims = claims

    def get(self, thread_id: str) -> SavedCheckpoint | None:
        for _ in range(READ_ATTEMPTS):
            claim = self._claims.get(thread_id)
            if claim is None:
                return None
            if (found := self._with_text(claim)) is not None:
                return found
        raise Unavailable(f"The checkpointer has lost what the thread {thread_id!r} says.")

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        self._append(checkpoint, partial(self._claims.put, lease_for=lease_for))

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        self._append(checkpoint, partial(self._claims.claim, lease_for=lease_for))

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        self._claims.renew(thread_id, rev, lease_for=lease_for)

    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        return [
            found for claim in self._claims.list_checkpoints(thread_id) if (found := self._with_text(claim))
        ]

    def list_threads(self, stage: Stage) -> Sequence[str]:
        return self._claims.list_threads(stage)

    def release(self, thread_id: str) -> None:
        places = self._places(thread_id)
        self._claims.release(thread_id)
        for place in places:
            self._forget(place)

    def close(self) -> None:
        """Close `claims`; the checkpointer is closed by whoever opened it."""
        self._claims.close()

    def _append(self, checkpoint: Checkpoint, claim: Callable[[Checkpoint], None]) -> None:
        thread_id = checkpoint.thread_id
        before = self._places(thread_id)
        place = f"placet:{file_name_for(thread_id)}:{checkpoint.rev}:{secrets.token_hex(8)}"
        self._write(place, checkpoint.to_json())
        try:
            claim(
                Checkpoint(
                    thread_id=thread_id,
                    rev=checkpoint.rev,
                    stage=checkpoint.stage,
                    messages=({TEXT_THREAD: place},),
                )
            )
        except HookError:
            with suppress(Unavailable):
                self._forget(place)
            raise
        # The checkpoint counts from here on: what cannot be cleared away now is litter, not a failure.
        with suppress(Unavailable):
            for earlier in before - self._places(thread_id):
                self._forget(earlier)

    def _places(self, thread_id: str) -> set[str]:
        return {_text_thread_of(claim) for claim in self._claims.list_checkpoints(thread_id)}

    def _with_text(self, claim: SavedCheckpoint) -> SavedCheckpoint | None:
        """What the claim refers to; None if it was cleared away since the claim was read."""
        with _translate_errors():
            found = self._checkpointer.get_tuple(_config(_text_thread_of(claim)))
        text = None if found is None else found.checkpoint["channel_values"].get(CHANNEL)
        if text is None:  # a checkpointer may be in the midst of forgetting it
            return None
        mark = claim.checkpoint
        read = read_saved(mark.thread_id, mark.rev, mark.stage, str(text), to_micros(claim.saved_at))
        return replace(read, leased_until=claim.leased_until)

    def _write(self, place: str, text: str) -> None:
        version = self._checkpointer.get_next_version(None, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {CHANNEL: text}
        checkpoint["channel_versions"] = {CHANNEL: version}
        with _translate_errors():
            self._checkpointer.put(
                _config(place), checkpoint, {"source": "update", "step": 0, "parents": {}}, {CHANNEL: version}
            )

    def _forget(self, place: str) -> None:
        with _translate_errors():
            self._checkpointer.delete_thread(place)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever a checkpointer of others raises, nothing is known to be kept
        raise Unavailable("The checkpointer cannot take this right now.") from error


def _config(place: str) -> Any:
    return {"configurable": {"thread_id": place, "checkpoint_ns": ""}}


def _text_thread_of(claim: SavedCheckpoint) -> str:
    return str(claim.checkpoint.messages[0][TEXT_THREAD])
