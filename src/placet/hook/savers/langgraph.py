"""Threads in any LangGraph checkpointer, with claims and leases in a second saver."""

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
from placet.hook.savers.encoding import build_file_name, read_saved, to_micros
from placet.hook.savers.saver import SavedCheckpoint, Saver

CHANNEL = "placet"
TEXT_THREAD = "langgraph_thread"
READ_ATTEMPTS = 5


class LangGraphSaver(Saver):
    """Stores thread texts in `checkpointer`, and which of them are valid in `claims`; needs `langgraph`.

    A LangGraph checkpointer has no compare-and-set, so it cannot decide which of two writers was first.
    `claims`, any other saver, does: it stores each thread's revision, stage, lease and the location of
    its text. A text is written before its claim, and is valid only if the claim succeeds.

    Guaranteed: everything that `claims` guarantees about one winner, leases, order, retention and the
    clock, for any number of processes that share both storages. Not guaranteed: a thread is only as
    durable as the weaker storage; the two cannot be backed up at one moment; a process that is killed
    between its two writes leaves an unused text behind; and each checkpoint is a LangGraph thread named
    `placet:…`, because a checkpointer can only delete whole threads.
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
        raise Unavailable(f"The checkpointer has lost the text of thread {thread_id!r}.")

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
        texts = self._list_text_threads(thread_id)
        self._claims.release(thread_id)
        for text_thread in texts:
            self._delete_text(text_thread)

    def close(self) -> None:
        """Close `claims`; the caller closes the checkpointer."""
        self._claims.close()

    def _append(self, checkpoint: Checkpoint, claim: Callable[[Checkpoint], None]) -> None:
        thread_id = checkpoint.thread_id
        before = self._list_text_threads(thread_id)
        text_thread = f"placet:{build_file_name(thread_id)}:{checkpoint.rev}:{secrets.token_hex(8)}"
        self._write(text_thread, checkpoint.to_json())
        try:
            claim(
                Checkpoint(
                    thread_id=thread_id,
                    rev=checkpoint.rev,
                    stage=checkpoint.stage,
                    messages=({TEXT_THREAD: text_thread},),
                )
            )
        except HookError:
            with suppress(Unavailable):
                self._delete_text(text_thread)
            raise
        # The checkpoint is valid from here on: failing to delete old texts is not an error.
        with suppress(Unavailable):
            for earlier in before - self._list_text_threads(thread_id):
                self._delete_text(earlier)

    def _list_text_threads(self, thread_id: str) -> set[str]:
        return {_find_text_thread_of(claim) for claim in self._claims.list_checkpoints(thread_id)}

    def _with_text(self, claim: SavedCheckpoint) -> SavedCheckpoint | None:
        """Return the checkpoint that the claim refers to; None if its text was deleted meanwhile."""
        with _translate_errors():
            found = self._checkpointer.get_tuple(_config(_find_text_thread_of(claim)))
        text = None if found is None else found.checkpoint["channel_values"].get(CHANNEL)
        if text is None:  # the checkpointer may be deleting it
            return None
        mark = claim.checkpoint
        read = read_saved(mark.thread_id, mark.rev, mark.stage, str(text), to_micros(claim.saved_at))
        return replace(read, leased_until=claim.leased_until)

    def _write(self, text_thread: str, text: str) -> None:
        version = self._checkpointer.get_next_version(None, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {CHANNEL: text}
        checkpoint["channel_versions"] = {CHANNEL: version}
        with _translate_errors():
            self._checkpointer.put(
                _config(text_thread),
                checkpoint,
                {"source": "update", "step": 0, "parents": {}},
                {CHANNEL: version},
            )

    def _delete_text(self, text_thread: str) -> None:
        with _translate_errors():
            self._checkpointer.delete_thread(text_thread)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # any error of the checkpointer means that the write is uncertain
        raise Unavailable("The checkpointer failed; whether anything was recorded is not known.") from error


def _config(text_thread: str) -> Any:
    return {"configurable": {"thread_id": text_thread, "checkpoint_ns": ""}}


def _find_text_thread_of(claim: SavedCheckpoint) -> str:
    return str(claim.checkpoint.messages[0][TEXT_THREAD])
