"""Pages whose every place holds payloads: whatever a service, an agent or a person can write."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from placet.pages import Round
from placet.protocol.poll import RespondedBy, Status
from placet.reviews.registry import REVIEW_TYPES, load_custom_type
from placet.text.characters import is_one_line, is_storable
from tests.pages.gallery import NOW, View, answered, closed_view, offer_of, rendered, review_view

ALONE = ("markdown", "html")
TOGETHER = ("json", "csv", "diff", "python", "image")
MANY = 400
IN_A_DOCUMENT = 40
FIELDS = 190  # a form takes 200


def hostile_pages(payloads: Sequence[str], *, full: bool = True) -> Iterator[tuple[str, str]]:
    """Pages by name that hold every payload in every place, or a sixth of them that has every place."""
    texts = [text for text in payloads if is_storable(text)]
    step = 1 if full else 6
    for number, part in enumerate(interleaved(texts, MANY)):
        for place, (name, view) in enumerate([*asked(part), *closed(part)]):
            if (number + place) % step == 0:
                yield f"{name}-{number}", rendered(view())
    for number, part in enumerate(interleaved(texts, FIELDS)):
        for place, (name, view) in enumerate(forms(part)):
            if (number + place) % step == 0:
                yield f"{name}-{number}", rendered(view())


def interleaved(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return parts of at most this size, each with texts of every sort: neighbours resemble each other."""
    count = -(-len(texts) // size)
    return [texts[number::count] for number in range(count)]


def parts(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def asked(texts: Sequence[str]) -> Iterator[tuple[str, Callable[[], View]]]:
    """A question of every type, with every text in every place that its page has."""
    for kind in (*REVIEW_TYPES.values(), load_custom_type()):
        body = spoken(kind.example(), texts)
        body["context"] |= anything(texts) if kind is load_custom_type() else {"facts": keyed(texts)}
        yield f"open-{kind.name}", partial(come_back, body, texts)
    for name, body in dressed(texts).items():
        yield f"open-{name}", partial(open_view, body)


def open_view(body: dict[str, Any]) -> View:
    return review_view(offer_of(body))


def dressed(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Artifacts of every format, cards with all their parts, failures with theirs."""
    together = ["\n\n".join(part) for part in parts(texts, IN_A_DOCUMENT)]
    formats = {**dict.fromkeys(ALONE, texts), **dict.fromkeys(TOGETHER, together)}
    return {
        **{
            f"approval-{format}": approval([{"format": format, "content": text} for text in documents])
            for format, documents in formats.items()
        },
        "approval-artifact": approval(keyed(texts)),
        "approval-hints": approval(
            [{"content": "text", "language": text[:90], "filename": text} for text in texts]
        ),
        "selection-options": body_of("selection", options=cards(texts)),
        "confirmation-items": body_of("confirmation", items=cards(texts)),
        "escalation-parts": body_of("escalation", **failure(texts)),
    }


def spoken(body: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    said = " ".join(texts)
    return {**body, "prompt": said, "message": f"{said} ", "service": said, "agent": said}


def body_of(type: str, **context: Any) -> dict[str, Any]:
    return {"type": type, "prompt": "?", "context": context}


def approval(artifact: Any) -> dict[str, Any]:
    return body_of("approval", artifact=artifact)


def come_back(body: dict[str, Any], texts: Sequence[str]) -> View:
    """The page as it comes back after a mistake, with what was typed in it."""
    said = "\n".join(texts)
    typed = dict.fromkeys(("feedback", "note", "reason", "confirm_word", "answer"), said)
    problems = {**dict.fromkeys(("feedback", "note", "reason", "selected"), said), texts[0]: said}
    return review_view(offer_of(body), typed, problems=problems, notice=said)


def keyed(texts: Sequence[str]) -> dict[str, str]:
    return {f"{number}{text}": text for number, text in enumerate(texts)}


def anything(texts: Sequence[str]) -> dict[str, Any]:
    """Unknown context of every shape."""
    return {
        "words": list(texts),
        "table": [{"one": text, "two": text} for text in texts],
        "facts": keyed(texts),
        "lines": "\n".join(texts),
        "url": texts[0],
        "links": [f"https://ok.example/{text}" for text in texts],
        "nested": {"deep": {"deeper": {"deepest": list(texts)}}},
        "warning": " ".join(texts),
        "action_labels": {"approve": texts[0][:40], "allow": texts[0][:40], "select": texts[0][:40]},
        "presets": [{"label": text[:80].split("\n")[0], "text": text[:1000]} for text in texts[:12]],
    }


def cards(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Options or items with every part of a card."""
    return [
        {
            "id": f"{number}{text}"[:500],
            "title": text,
            "description": text,
            "badges": [text[:40], text],
            "image": text,
            "price": text,
            "recommended": text,
            text: text,
        }
        for number, text in enumerate(texts)
    ]


def failure(texts: Sequence[str]) -> dict[str, Any]:
    """What failed, with logs, parameters and suggestions."""
    return {
        "error": {"message": " ".join(texts), "code": texts[0], **keyed(texts)},
        "since": texts[0],
        "logs": list(texts),
        "log": "\n".join(texts),
        "params": keyed(texts),
        "suggestions": [{"title": text, "description": text, "action": "retry"} for text in texts],
        "suggested_actions": list(texts),
    }


def forms(texts: Sequence[str]) -> Iterator[tuple[str, Callable[[], View]]]:
    """A form with every text as label, hint, placeholder, default, option and heading."""
    choices = [{"value": f"{number}{text}"[:200], "label": text[:200]} for number, text in enumerate(texts)]
    fields: list[dict[str, Any]] = [
        {
            "key": f"f{number}",
            "label": text[:200],
            "type": "text" if is_one_line(text) else "textarea",
            "hint": text[:500],
            "placeholder": text[:500],
            "default": text[:5000],
        }
        for number, text in enumerate(texts)
    ]
    fields += [
        {"key": "one", "label": "One", "type": "select", "options": choices},
        {"key": "any", "label": "Any", "type": "multiselect", "options": choices},
    ]
    heading = " ".join(texts)[:200]
    steps = [
        {"title": heading, "description": " ".join(texts)[:500], "fields": fields},
        {"title": heading, "fields": []},
    ]
    offer = offer_of(body_of("input", form={"steps": steps}))
    values = {f"f{number}": text for number, text in enumerate(texts)}
    yield "open-input-form", partial(review_view, offer, values, problems=dict.fromkeys(values, heading))
    yield "open-input-summary", partial(review_view, offer, values, step=1)
    yield "closed-input", partial(answered, offer, "submit", values)


def closed(texts: Sequence[str]) -> Iterator[tuple[str, Callable[[], View]]]:
    """What people wrote, shown afterwards, and in the rounds before."""
    said = "\n".join(texts)
    anybody = RespondedBy(name=said, email=said)
    offer = offer_of(spoken(load_custom_type().example(), texts))
    data = {"note": said, "reason": said, "feedback": said, "all": keyed(texts), "list": list(texts)}
    yield "closed-x", partial(answered, offer, "allow", data, by=anybody)
    artifact = offer_of(approval({"body": said, **keyed(texts)}))
    edits = {"feedback": said, "edits": {"body": said[::-1], **keyed(texts)}}
    yield "closed-approval", partial(answered, artifact, "edit", edits)
    yield "closed-cancelled", partial(closed_view, offer, Status.CANCELLED, case={"reason": said})
    choice = offer_of(body_of("selection", options=cards(texts)))
    picked = [option["id"] for option in cards(texts)]
    yield "closed-selection", partial(answered, choice, "select", {"selected": picked, "note": said})
    yield "open-rounds", partial(review_view, artifact, rounds=rounds(said, edits["edits"]))


def rounds(said: str, edits: Any) -> tuple[Round, ...]:
    recap = (("feedback", said), ("edits", edits))
    return (Round(asked_at=NOW - timedelta(days=1), prompt=said, action="edit", recap=recap),)
