"""How much of a message stands in the audit: nothing, what no policy found, or all of it."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from placet.relay.a2a.call import PUSH_IN_SEND, A2ACall
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reading import Json
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.texts import OPAQUE, written_number
from placet.relay.audit.keeping import Payloads
from placet.relay.policies.finding import Finding, mask_of
from placet.relay.policies.masking import mask_text

LARGEST_BODY = 128 * 1024
"""A larger body is not kept: an event is read in a page with a hundred others."""
SHORTEST_SCRUBBED = 3
"""A shorter match is masked only where it was found: everywhere else it may be part of anything."""
FILE_CONTENT = "[FILE CONTENT]"
SECRET = "[SECRET]"  # noqa: S105 - what stands in its place

_SECRETS = frozenset({"token", "credentials"})
# What makes a second look necessary, as it stands in JSON.
_NOTABLE = re.compile('"(?:{})"'.format("|".join([*sorted(OPAQUE), *sorted(_SECRETS), "history"])).encode())

_encode = msgspec.json.Encoder().encode


def kept_body(
    payloads: Payloads,
    message: A2ACall | A2AReply,
    findings: Sequence[Finding] = (),
    *,
    elsewhere: Sequence[Finding] = (),
) -> msgspec.Raw | None:
    """A message for `requestBody` or `responseBody`; None if it is not kept.

    `findings` are those in this very message, whatever their action; `elsewhere` are those of other legs, and
    for a reply those of its request. Masked bodies leave out what was found, wherever it stands again, the
    content of files, and `history`, which repeats messages that have events of their own. A finding that
    cannot be located keeps the whole body out.
    """
    if payloads == "none" or message.document is None:
        return None
    try:
        body = _body(payloads, message, findings, elsewhere)
    except (A2AProblem, RecursionError, _Unlocated):
        return None
    return msgspec.Raw(body) if len(body) <= LARGEST_BODY else None


class _Unlocated(Exception):
    """Something that was found stands, whole or in part, where it cannot be told from the rest."""


def _body(
    payloads: Payloads,
    message: A2ACall | A2AReply,
    findings: Sequence[Finding],
    elsewhere: Sequence[Finding],
) -> bytes:
    document, body = message.document, message.encoded
    if payloads == "masked" and (findings or elsewhere):
        document = _masked(message, findings, elsewhere)
        body = _encode(document)
    if _NOTABLE.search(body) is not None:
        body = _encode(_tidied(document, whole=payloads == "full"))
    return body


def _masked(message: A2ACall | A2AReply, findings: Sequence[Finding], elsewhere: Sequence[Finding]) -> Any:
    texts = [piece.text for piece in message.pieces()]
    for place, found in _by_place(texts, findings).items():
        texts[place] = mask_text(texts[place], found)
    return _scrubbed(message.with_texts(texts), _masks([*findings, *elsewhere]))


def _by_place(texts: Sequence[str], findings: Iterable[Finding]) -> dict[int, list[Finding]]:
    """Findings by the text they are in."""
    here: dict[int, list[Finding]] = {}
    for one in findings:
        if not 0 <= one.piece < len(texts) or not texts[one.piece].startswith(one.text, one.start):
            raise _Unlocated
        here.setdefault(one.piece, []).append(one)
    return here


def _masks(findings: Iterable[Finding]) -> list[tuple[str, str | None]]:
    """Texts to take out and what to put there, the longest first, since one may stand within another.

    Of a match that is not known to its end only the beginning can be looked for, and not replaced.
    """
    known = [one for one in findings if len(one.text) >= SHORTEST_SCRUBBED]
    whole = {one.text: mask_of(one.entity) if one.end - one.start == len(one.text) else None for one in known}
    return sorted(whole.items(), key=lambda pair: -len(pair[0]))


def _scrubbed(value: Any, masks: Sequence[tuple[str, str | None]]) -> Any:
    if isinstance(value, str):
        for text, mask in masks:
            if text in value:
                if mask is None:
                    raise _Unlocated
                value = value.replace(text, mask)
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = _scrubbed(written_number(value), masks)
        return value if written == written_number(value) else written
    if isinstance(value, list):
        return [_scrubbed(item, masks) for item in value]
    if isinstance(value, dict):
        return {_scrubbed(name, masks): _scrubbed(item, masks) for name, item in value.items()}
    return value


def _tidied(value: Any, *, whole: bool, in_push: bool = False) -> Any:
    """Without secrets for push notifications, and unless it is to be whole without files and history."""
    if isinstance(value, list):
        return [_tidied(item, whole=whole, in_push=in_push) for item in value]
    if not isinstance(value, dict):
        return value
    kept: Json = {}
    for name, item in value.items():
        if name == "history" and isinstance(item, list) and not whole:
            continue
        if name in OPAQUE and isinstance(item, str) and not whole:
            kept[name] = FILE_CONTENT
        elif name in _SECRETS and isinstance(item, str) and (in_push or "url" in value):
            kept[name] = SECRET
        else:
            inside = in_push or name in PUSH_IN_SEND or name == "authentication"
            kept[name] = _tidied(item, whole=whole, in_push=inside)
    return kept
