"""Sample threads for tests of savers: a full one, and texts and ids that are difficult to store."""

from datetime import timedelta

from placet.hook.checkpoint import Checkpoint
from placet.hook.feedback import FeedbackResult, ToolFeedback, Verdict
from placet.hook.interruption import create_interruption
from placet.hook.tool_call import ToolCall
from placet.testing.clock import DAYBREAK

STRANGE = [
    "Ünï ✅ 🇨🇭 עברית e\u0301 \u202e\x7f\ufeff \U0010ffff",
    "a\x00b\x1f\r\n\u2028",
    "lone \ud800 surrogates \udfff",
    "'quote' \"--\\ %s {} $1 \\u0000",
]

HOSTILE_IDS = [
    "../../etc/passwd",
    "..",
    "/",
    "a/b",
    "a\\b",
    "thread.thread",
    "user 1",
    "USER 1",
    "user-1",
    "x" * 300,
    "x" * 301,
    "é" * 100_000,
    "e\u0301",
    "é",
    "a\x00b",
    "a",
    "\ud800",
    "\n",
    "' OR 1=1 --",
    "*",
    "{placet}:stage:paused",
    "日本語",
]


def create_thread(thread_id: str, text: str = "Hello") -> Checkpoint:
    """Return a thread with one message that was not saved yet."""
    return Checkpoint(thread_id=thread_id, messages=({"role": "user", "content": text},))


def create_full_checkpoint(thread_id: str) -> Checkpoint:
    """Return a paused thread with a value in every field."""
    calls = [
        ToolCall(id="call_1", name="write_file", arguments={"path": "a.txt", "size": [1, 0.5, None, True]}),
        ToolCall(id="call_2", name="read_file", arguments={}),
    ]
    messages = (
        {"role": "user", "content": "Write it"},
        {"role": "assistant", "content": None, "tool_calls": [call.to_dict() for call in calls]},
    )
    waiting = ToolFeedback(
        id="call_1",
        name="write_file",
        arguments=calls[0].arguments,
        description="Writes a file",
        allowed_decisions=(FeedbackResult.REJECTED, FeedbackResult.RESPONDED),
        schema={"type": "object"},
        path=("outer", "inner"),
        high_risk=True,
    )
    interruption = create_interruption(
        "int_sample",
        thread_id=thread_id,
        turn=1,
        feedbacks=[waiting],
        automatic=calls[1:],
        now=DAYBREAK + timedelta(microseconds=1),
        state={"messages": messages},
        expires_at=DAYBREAK + timedelta(hours=1),
        default="hold",
    )
    edited = Verdict(
        decision=FeedbackResult.EDITED, name="other", arguments={"b": [2]}, reason="r", decided_by="jo"
    )
    return Checkpoint(
        thread_id=thread_id,
        agent="writer/editor",
        rev=1,
        stage="paused",
        messages=messages,
        interruption=interruption,
        verdicts={"call_1": edited, "call_2": Verdict(decision=FeedbackResult.RESPONDED, answer="a")},
        started=("call_1", "call_2"),
        results={"call_2": "read"},
        queued=("and then?", ""),
        resumed={"int_1": 4},
        case={"case_id": "review_1", "review_url": "https://acme.example/review"},
    )
