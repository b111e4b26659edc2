"""Build the review case for a held message: what the reviewer sees, and why it is held."""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.desk.draft import CaseDraft
from placet.ports.detector import Scannable
from placet.ports.identity import Principal
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.json_format import Json, get_parts
from placet.relay.a2a.reply import A2AReply, digest_message
from placet.relay.a2a.text_extraction import TextPiece, UnreadableContent, decode_file_bytes
from placet.relay.a2a.text_normalization import normalize_text
from placet.relay.exchange import Exchange
from placet.relay.hold import FrozenMessage, HoldKind
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import PolicyAction
from placet.relay.policy.verdict import HoldingPolicy, get_holding_policy
from placet.relay.task import build_reason_metadata
from placet.relay.tenants import Subscription
from placet.reviews.held_messages.declaration import HELD_MESSAGES
from placet.text.characters import replace_unstorable
from placet.text.truncation import truncate

MAX_TEXTS = 20_000
MAX_MARKS = 500
MAX_DATA_PARTS = 5_000
MAX_DATA_DEPTH = 20
MARK_CONTEXT = 400
"""Characters shown on both sides of a finding if the text is too long to be shown whole."""
MAX_OPENING_LENGTH = 2_000
MAX_LABEL_LENGTH = 200
_DATA = re.compile(r"\.(?:parts|content)\[\d+\]\.data(?:\W|$)")

MarkedSpan = tuple[int, int, Finding]


MAX_FILES = 200
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"%!PS", "application/postscript"),
    (b"{\\rtf", "application/rtf"),
)
CONTEXT_FIELD = "held_message"
MAX_MATCHED_TEXT = 2_000
MAX_LIST_ITEMS = 50
MAX_REQUESTS = 3
MAX_REQUEST_TEXT = 2_000
MAX_CONTEXT_GROWTH = 24
"""How much larger than its message the context of a case may be: each text has a path, marks and escapes."""
RESERVED_BYTES = 48 * 1024
"""Bytes of a case's context that are reserved for everything except the texts."""
MIN_TEXT_BYTES = 1024


def excerpt_texts(
    pieces: Sequence[Scannable], findings: Iterable[Finding], *, room: int, shows_data: bool = False
) -> dict[str, Any]:
    """Return the texts with their marks in about `room` bytes of JSON, and the number of omitted texts.

    Texts with findings come first; long texts are cut to excerpts. Ids, and texts of data parts that are
    shown as data, are included only if they have findings.
    """
    marks = _group_marks(pieces, findings)
    optional = {
        index
        for index, piece in enumerate(pieces)
        if is_identifier(piece) or (shows_data and is_in_data_part(piece))
    }
    relevant = [index for index in range(len(pieces)) if index in marks or index not in optional]
    order = sorted(relevant, key=lambda index: (index not in marks, index))
    shown: dict[int, dict[str, Any]] = {}
    left = room
    for count, index in enumerate(order):
        piece = pieces[index]
        if count >= MAX_TEXTS or left <= 0:
            break
        entry = _build_text_entry(piece, marks.get(index, []), left)
        left -= len(msgspec.json.encode(entry))
        shown[index] = entry
    return {
        "texts": [shown[index] for index in sorted(shown)],
        "texts_left_out": len(relevant) - len(shown),
    }


def is_in_data_part(piece: Scannable) -> bool:
    """Return whether the text is in a data part that is shown as data."""
    return not piece.path.startswith("history[") and _DATA.search(piece.path) is not None


def is_identifier(piece: Scannable) -> bool:
    """Return whether the text is an id or another fixed value that masks must not change."""
    return isinstance(piece, TextPiece) and piece.role == "fixed"


def excerpt_data(parts: Sequence[Any] | None, *, room: int) -> dict[str, Any]:
    """Return the data parts that fit in about `room` bytes of JSON, and the number of omitted parts."""
    shown: list[Any] = []
    left = room
    for part in parts or ():
        plain = _clean_value(part, MAX_DATA_DEPTH)
        left -= len(msgspec.json.encode(plain))
        if left < 0 or len(shown) >= MAX_DATA_PARTS:
            break
        shown.append(plain)
    return {"data": shown, "data_left_out": len(parts or ()) - len(shown)}


def _clean_value(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return replace_unstorable(value)
    if isinstance(value, dict | list) and levels == 0:
        return replace_unstorable(msgspec.json.encode(value).decode())
    if isinstance(value, dict):
        return {replace_unstorable(str(name)): _clean_value(item, levels - 1) for name, item in value.items()}
    return [_clean_value(item, levels - 1) for item in value] if isinstance(value, list) else value


def format_label(text: str) -> str:
    """Return an untrusted name on one line, without unstorable characters and not too long."""
    return truncate(" ".join(replace_unstorable(text).split()), MAX_LABEL_LENGTH)


def _group_marks(pieces: Sequence[Scannable], findings: Iterable[Finding]) -> dict[int, list[MarkedSpan]]:
    """Return the marks by index of the text. A finding of zero width marks the whole text."""
    found: dict[int, list[MarkedSpan]] = {}
    for count, finding in enumerate(findings):
        if count >= MAX_MARKS:
            break
        if not 0 <= finding.piece < len(pieces):
            continue
        start, end = finding.start, finding.end
        if start == end:
            start, end = 0, len(pieces[finding.piece].text)
        found.setdefault(finding.piece, []).append((start, end, finding))
    return {index: sorted(marks, key=lambda mark: mark[:2]) for index, marks in found.items()}


def _build_text_entry(piece: Scannable, marks: Sequence[MarkedSpan], room: int) -> dict[str, Any]:
    text = replace_unstorable(piece.text)
    fits = len(text.encode("utf-8", "replace")) <= room
    spans = [(0, len(text))] if fits else _choose_windows(len(text), marks, room)
    return {
        "path": format_label(piece.path),
        "length": len(text),
        "excerpts": [_build_excerpt(text, start, end, marks) for start, end in spans],
    }


def _describe_entity(finding: Finding) -> str:
    """Return the entity of a finding, with the plain reading of a text in disguised characters."""
    reading = normalize_text(finding.text)
    return finding.entity if reading is None else f"{finding.entity} → {reading}"


def _choose_windows(length: int, marks: Sequence[MarkedSpan], room: int) -> list[tuple[int, int]]:
    """Return the spans of a long text to show: its beginning and the surroundings of each finding."""
    wanted = [(0, min(length, MAX_OPENING_LENGTH, max(room // 8, 100)))]
    wanted += [(max(0, start - MARK_CONTEXT), min(length, end + MARK_CONTEXT)) for start, end, _ in marks]
    joined: list[tuple[int, int]] = []
    left = room // 4  # a character may take four bytes
    for start, last in wanted:
        end = min(last, start + max(left, 0))
        if end <= start:
            break
        if joined and start <= joined[-1][1]:
            left -= max(0, end - joined[-1][1])
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            left -= end - start
            joined.append((start, end))
    return joined


def _build_excerpt(text: str, start: int, end: int, marks: Sequence[MarkedSpan]) -> dict[str, Any]:
    inside = [
        {
            "start": max(first, start) - start,
            "end": min(last, end) - start,
            "entity": format_label(_describe_entity(finding)),
            "policy": format_label(finding.policy_name),
            "action": str(finding.action),
        }
        for first, last, finding in marks
        if first < end and last > start
    ]
    return {"at": start, "text": text[start:end], "marks": inside}


def describe_files(files: Sequence[UnreadableContent], *, room: int) -> dict[str, Any]:
    """Return the files with their content, if it fits in `room` bytes, and the number of omitted files."""
    described = []
    for file in files[:MAX_FILES]:
        facts = _describe_file(file)
        room -= len(facts["content"])
        described.append(facts if room >= 0 else {**facts, "content": None})
    return {"files": described, "files_left_out": max(0, len(files) - MAX_FILES)}


def _describe_file(file: UnreadableContent) -> dict[str, Any]:
    data = decode_file_bytes(file.content)
    if data is None:  # the receiver may decode it in another way: show the text that it gets
        data = file.content.encode("utf-8", "replace")
    return {
        "path": format_label(file.path),
        "name": format_label(file.name or "") or None,
        "declared_type": format_label(file.media_type or "") or None,
        "type": _detect_type(data),
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "content": base64.b64encode(data).decode(),
    }


def _detect_type(data: bytes) -> str | None:
    """Return the media type according to the first bytes, or None if they are not known."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in _SIGNATURES if data.startswith(start)), None)


class HoldReason(Struct, frozen=True, kw_only=True):
    """Why a message is held: a policy matched, or the agent asked for input."""

    policy: HoldingPolicy | None = None
    findings: tuple[Finding, ...] = ()
    unchecked: tuple[str, ...] = ()
    reason: str
    unreadable_paths: tuple[str, ...] = ()

    @property
    def metadata(self) -> Json:
        """Return the metadata of the task that the caller gets."""
        if self.policy is None:
            return build_reason_metadata("HITL_HELD_AGENT_INPUT_REQUIRED")
        return build_reason_metadata("HITL_HELD", self.policy)

    @property
    def content(self) -> str | None:
        """Return the matched texts for the reviewer; None if the hold is not caused by a policy."""
        if self.policy is None:
            return None
        held = [one.text for one in self.findings if one.action is PolicyAction.HUMAN_REVIEW_REQUIRED]
        texts = dict.fromkeys(held or [one.text for one in self.findings])
        content = "\n".join(map(_annotate_hidden_text, texts))
        return truncate(replace_unstorable(content), MAX_MATCHED_TEXT) or None


def _annotate_hidden_text(text: str) -> str:
    reading = normalize_text(text)
    return text if reading is None else f"{text} → {reading}"


AGENT_INPUT_REASON = HoldReason(reason="The agent asks for input.")


def hold_reason_from_evaluation(evaluation: Evaluation, released_events: int = 0) -> HoldReason:
    """Return the reason to hold a message; raise ValueError if no policy decided the evaluation.

    `released_events` is the number of events of a held stream that the caller has got before.
    """
    policy = get_holding_policy(evaluation)
    if policy is None:
        raise ValueError("No policy decided this evaluation, so the message cannot be held.")
    released = f"The caller has already got {released_events} events of the stream."
    return HoldReason(
        policy=policy,
        findings=evaluation.findings,
        unchecked=tuple(f"{one.applied.policy.name}: {one.reason}" for one in evaluation.unchecked),
        reason=evaluation.reason if not released_events else f"{evaluation.reason} {released}",
        unreadable_paths=evaluation.unreadable_paths,
    )


def build_case_owner(tenant: str) -> Principal:
    """Return the principal that owns the cases of a tenant's held messages."""
    return Principal(name=f"relay:{tenant}")


def build_draft(
    frozen: FrozenMessage,
    exchange: Exchange,
    hold_reason: HoldReason,
    pieces: Sequence[Scannable],
    *,
    requests: Sequence[str],
    data: list[Any] | None,
    files: Sequence[UnreadableContent],
    task_id: str,
    timeout: str | None,
    max_context_bytes: int,
) -> CaseDraft:
    """Return the draft of the case, with the message and its findings.

    `requests` are the texts of the messages that an agent got that asks for input.
    """
    matter, subscription = frozen.frame.matter, exchange.subscription
    facts = _build_facts(frozen, exchange, hold_reason, task_id, requests)
    return CaseDraft(
        type=HELD_MESSAGES.type,
        prompt=build_prompt(matter, subscription),
        message=build_summary(matter, subscription, hold_reason),
        context={
            CONTEXT_FIELD: _add_message(
                facts, hold_reason, pieces, data, files, max_context_bytes=max_context_bytes
            )
        },
        timeout=timeout,
        default_action="reject",
        inline_actions=HELD_MESSAGES.inline_actions,
        agent=format_label(subscription.source.name),
        asked_by=(subscription.source.name, subscription.sink.id),
    )


def build_prompt(matter: HoldKind, subscription: Subscription) -> str:
    """Return the question to the reviewer in one sentence."""
    caller, agent = format_label(subscription.source.name), format_label(subscription.sink.id)
    if matter == "request":
        return f"May this message from {caller} go to the agent {agent}?"
    if matter == "response":
        return f"May {caller} get this response from the agent {agent}?"
    return f"The agent {agent} asks for input. May it continue?"


def build_summary(matter: HoldKind, subscription: Subscription, hold_reason: HoldReason) -> str:
    """Return what is held and why, without content of the message."""
    caller, agent = format_label(subscription.source.name), format_label(subscription.sink.id)
    if matter == "input":
        return f"The agent {agent} asks for input while it works for {caller}."
    subject = (
        f"A message from {caller} to {agent}"
        if matter == "request"
        else f"A response from {agent} to {caller}"
    )
    return f"{subject} is held. {replace_unstorable(hold_reason.reason)}"[:2000]


def join_visible_texts(pieces: Sequence[Scannable]) -> str:
    """Return the texts of a message joined, without ids and data parts."""
    texts = [piece.text for piece in pieces if not (is_in_data_part(piece) or is_identifier(piece))]
    return replace_unstorable("\n".join(texts))


def find_data_parts(call: A2ACall, reply: A2AReply | None) -> list[Any] | None:
    """Return the data parts of the held message; None if it has none."""
    parents = [call.message or {}] if reply is None else _list_objects_with_parts(reply)
    found = [part["data"] for parent in parents for part in get_parts(parent) if "data" in part]
    return found or None


def list_request_texts(exchange: Exchange, reply: A2AReply) -> list[str]:
    """Return the last messages that the agent got in this task, each with its beginning, the newest last.

    Of the messages in the agent's `history`, only those count that the relay itself forwarded.
    """
    task, state = reply.task or {}, exchange.state
    history, known = task.get("history"), reply.forwarded.get(str(task.get("id")), frozenset())
    messages = [one for one in history if isinstance(one, dict)] if isinstance(history, list) else []
    found = {digest: one for one in messages if (digest := digest_message(one)) in known}
    if state.sent_message is not None and state.forwarded is not None:
        found[state.forwarded] = state.sent_message
    texts = [_join_parts(message) for message in found.values()]
    return [truncate(replace_unstorable(text), MAX_REQUEST_TEXT) for text in texts if text][-MAX_REQUESTS:]


def _join_parts(message: dict[str, Any]) -> str:
    texts = [
        part["text"]
        if isinstance(part.get("text"), str)
        else msgspec.json.encode(part["data"]).decode()
        if "data" in part
        else ""
        for part in get_parts(message)
    ]
    return "\n".join(text for text in texts if text)


def get_author_role(matter: HoldKind) -> Literal["user", "agent"]:
    """Return the A2A role of the held message's author."""
    return "user" if matter == "request" else "agent"


def _build_facts(
    frozen: FrozenMessage,
    exchange: Exchange,
    hold_reason: HoldReason,
    task_id: str,
    requests: Sequence[str],
) -> dict[str, Any]:
    """Return what the reviewer sees besides the message's content."""
    frame, subscription = frozen.frame, exchange.subscription
    return {
        "matter": frame.matter,
        "leg": frame.leg.value,
        "sender": format_label(_get_sender(frame.matter, subscription)),
        "receiver": format_label(_get_receiver(frame.matter, subscription)),
        "caller": format_label(subscription.source.name),
        "caller_kind": subscription.source.kind,
        "agent": format_label(subscription.sink.id),
        "policy": _describe_policy(hold_reason),
        "reason": replace_unstorable(hold_reason.reason)[:500],
        "unchecked": [format_label(one) for one in hold_reason.unchecked[:MAX_LIST_ITEMS]],
        "digest": frozen.digest,
        "task_id": format_label(task_id),
        "correlation_id": format_label(exchange.correlation_id),
        "request": list(requests),
    }


def _add_message(
    facts: dict[str, Any],
    hold_reason: HoldReason,
    pieces: Sequence[Scannable],
    data: list[Any] | None,
    files: Sequence[UnreadableContent],
    *,
    max_context_bytes: int,
) -> dict[str, Any]:
    """Return the facts with the message, or as much of it as fits into the case's context."""
    room = max_context_bytes - RESERVED_BYTES
    while True:
        parts = excerpt_data(data, room=room // 3)
        described = describe_files(files, room=room // 3)
        shows_data = not parts["data_left_out"]
        texts = excerpt_texts(pieces, hold_reason.findings, room=room // 3, shows_data=shows_data)
        context = {**facts, **parts, **described, **texts}
        if room < MIN_TEXT_BYTES or len(msgspec.json.encode(context)) <= max_context_bytes - MIN_TEXT_BYTES:
            return context
        room //= 2  # escapes can make a text longer in JSON than its own length


def _list_objects_with_parts(reply: A2AReply) -> list[dict[str, Any]]:
    """Return the objects of a response that have parts: messages and artifacts."""
    content = reply.task or reply.status_update or reply.artifact_update or {}
    status, artifacts = content.get("status"), content.get("artifacts")
    found: list[Any] = [reply.message, content.get("artifact")]
    found += [status.get("message")] if isinstance(status, dict) else []
    found += artifacts if isinstance(artifacts, list) else []
    return [one for one in found if isinstance(one, dict)]


def _get_sender(matter: HoldKind, subscription: Subscription) -> str:
    return subscription.source.name if matter == "request" else subscription.sink.id


def _get_receiver(matter: HoldKind, subscription: Subscription) -> str:
    return subscription.sink.id if matter == "request" else subscription.source.name


def _describe_policy(hold_reason: HoldReason) -> dict[str, str] | None:
    policy = hold_reason.policy
    if policy is None:
        return None
    return {"name": format_label(policy.name), "version": policy.version, "level": policy.level}
