"""Build the bodies stored in audit events: omitted, masked or complete."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from placet.relay.a2a.call import PUSH_CONFIG_FIELDS, A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_extraction import FILE_FIELDS, format_number
from placet.relay.policy.finding import Finding, format_mask, mask_text
from placet.relay.tenants import PayloadMode

MAX_BODY_BYTES = 128 * 1024
"""Larger bodies are not stored, because a page of the API may contain 200 events."""
MIN_SCRUBBED = 3
"""A shorter match is masked only where it was found. Elsewhere it may be part of another word."""
FILE_CONTENT = "[FILE CONTENT]"
SECRET = "[SECRET]"  # noqa: S105 - the replacement, not a secret

_SECRETS = frozenset({"token", "credentials"})
# The field names in JSON that make a body worth stripping.
_NEEDS_STRIPPING = re.compile(
    '"(?:{})"'.format("|".join([*sorted(FILE_FIELDS), *sorted(_SECRETS), "history"])).encode()
)

_encode = msgspec.json.Encoder().encode


def build_payload_body(
    payloads: PayloadMode,
    message: A2ACall | A2AReply,
    findings: Sequence[Finding] = (),
    *,
    elsewhere: Sequence[Finding] = (),
) -> msgspec.Raw | None:
    """Return a message for `requestBody` or `responseBody`, or None if it is not stored.

    `findings` are the findings in this message, with any action. `elsewhere` are those of other legs and, for
    a reply, of its request. A masked body does not contain the findings, wherever their text is repeated, nor
    the content of files, nor `history`, which repeats earlier messages. If a finding cannot be located, the
    whole body is omitted.
    """
    if payloads == "none" or message.document is None:
        return None
    try:
        body = _encode_body(payloads, message, findings, elsewhere)
    except (A2AError, RecursionError, _Unlocated):
        return None
    return msgspec.Raw(body) if len(body) <= MAX_BODY_BYTES else None


class _Unlocated(Exception):
    """A finding, or a part of it, cannot be located in the message."""


def _encode_body(
    payloads: PayloadMode,
    message: A2ACall | A2AReply,
    findings: Sequence[Finding],
    elsewhere: Sequence[Finding],
) -> bytes:
    document, body = message.document, message.json_bytes
    if payloads == "masked" and (findings or elsewhere):
        document = _mask_message(message, findings, elsewhere)
        body = _encode(document)
    if _NEEDS_STRIPPING.search(body) is not None:
        body = _encode(_strip(document, whole=payloads == "full"))
    return body


def _mask_message(
    message: A2ACall | A2AReply, findings: Sequence[Finding], elsewhere: Sequence[Finding]
) -> Any:
    texts = [piece.text for piece in message.pieces()]
    for index, found in _group_by_text(texts, findings).items():
        texts[index] = mask_text(texts[index], found)
    return _scrub(message.with_texts(texts), _list_masks([*findings, *elsewhere]))


def _group_by_text(texts: Sequence[str], findings: Iterable[Finding]) -> dict[int, list[Finding]]:
    """Return the findings by the index of their text."""
    groups: dict[int, list[Finding]] = {}
    for one in findings:
        if not 0 <= one.piece < len(texts) or not texts[one.piece].startswith(one.text, one.start):
            raise _Unlocated
        groups.setdefault(one.piece, []).append(one)
    return groups


def _list_masks(findings: Iterable[Finding]) -> list[tuple[str, str | None]]:
    """Return the texts to replace and their masks, the longest first, because one may contain another.

    The mask is None if only the beginning of a match is known, which cannot be replaced.
    """
    long = [one for one in findings if len(one.text) >= MIN_SCRUBBED]
    masks = {
        one.text: format_mask(one.entity) if one.end - one.start == len(one.text) else None for one in long
    }
    return sorted(masks.items(), key=lambda pair: -len(pair[0]))


def _scrub(value: Any, masks: Sequence[tuple[str, str | None]]) -> Any:
    if isinstance(value, str):
        for text, mask in masks:
            if text in value:
                if mask is None:
                    raise _Unlocated
                value = value.replace(text, mask)
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = _scrub(format_number(value), masks)
        return value if written == format_number(value) else written
    if isinstance(value, list):
        return [_scrub(item, masks) for item in value]
    if isinstance(value, dict):
        return {_scrub(name, masks): _scrub(item, masks) for name, item in value.items()}
    return value


def _strip(value: Any, *, whole: bool, in_push: bool = False) -> Any:
    """Return the value without push secrets and, unless `whole`, without files and history."""
    if isinstance(value, list):
        return [_strip(item, whole=whole, in_push=in_push) for item in value]
    if not isinstance(value, dict):
        return value
    kept: Json = {}
    for name, item in value.items():
        if name == "history" and isinstance(item, list) and not whole:
            continue
        if name in FILE_FIELDS and isinstance(item, str) and not whole:
            kept[name] = FILE_CONTENT
        elif name in _SECRETS and isinstance(item, str) and (in_push or "url" in value):
            kept[name] = SECRET
        else:
            inside = in_push or name in PUSH_CONFIG_FIELDS or name == "authentication"
            kept[name] = _strip(item, whole=whole, in_push=inside)
    return kept
