"""Whatever a service or an agent wrote stays text: no markup, no script, nothing hidden."""

from collections.abc import Iterator
from typing import Any

import pytest

from placet.errors import RequestError
from placet.reviews.registry import REVIEW_TYPES, load_custom_type
from placet.text.characters import mark_hidden
from tests.pages.gallery import answered, every_page, offer_of, rendered, review_view
from tests.pages.markup import Markup
from tests.pages.payloads import PAYLOADS

KNOWN = set().union(*(Markup(html).shapes() for html in every_page().values()))
EXAMPLES = [kind.example() for kind in (*REVIEW_TYPES.values(), load_custom_type())]


def planted(value: Any, payload: str) -> Iterator[Any]:
    """The value with the payload in one place, for every place: texts and keys."""
    if isinstance(value, str):
        yield payload
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield {**{name: part for name, part in value.items() if name != key}, payload: inner}
            yield from ({**value, key: other} for other in planted(inner, payload))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in planted(inner, payload))


def hostile_bodies(body: dict[str, Any], payload: str) -> Iterator[dict[str, Any]]:
    for name in ("prompt", "message", "service", "agent"):
        yield {**body, name: payload}
    for context in planted(body["context"], payload):
        yield {**body, "context": context}


def check_page(html: str) -> Markup:
    page = Markup(html)
    assert page.problems == []
    assert page.shapes() <= KNOWN
    for link in page.all("a"):
        assert str(link["href"]).startswith(("#", "/", "https://"))
    return page


def shows(page: Markup, payload: str) -> bool:
    shown = " ".join(mark_hidden(payload).split())
    attributes = " ".join(str(value) for _, found in page.tags for value in found.values())
    return shown in " ".join(page.text.split()) or shown in " ".join(mark_hidden(attributes).split())


# The browser goes through all of them; here a few are planted in one place after the other.
@pytest.mark.parametrize("payload", PAYLOADS[::4], ids=range(len(PAYLOADS[::4])))
@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: body["type"])
def test_a_payload_in_any_place_of_an_open_case_stays_text(body: dict[str, Any], payload: str) -> None:
    tried = 0
    for hostile in hostile_bodies(body, payload):
        try:
            offer = offer_of(hostile)
        except RequestError:
            continue
        steps = len(review_view(offer).substance.get("steps", ())) or 1
        pages = [check_page(rendered(review_view(offer, step=step))) for step in range(steps)]
        # A wizard keeps some of its places for people who answer otherwise.
        assert steps > 1 or shows(pages[0], payload)
        tried += 1
    assert tried > 5


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_payload_in_an_answer_stays_text(payload: str) -> None:
    body = {"type": "x-any", "prompt": payload, "service": payload, "context": {}, "actions": ["go"]}
    data = {"note": payload, payload: {payload: [payload, {"a": payload}]}}
    assert shows(check_page(rendered(answered(offer_of(body), "go", data))), payload)


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_payload_typed_by_the_person_comes_back_as_text(payload: str) -> None:
    for body in EXAMPLES:
        offer = offer_of(body)
        values: dict[str, Any] = dict.fromkeys(
            ("feedback", "note", "reason", "confirm_word", "wishes"), payload
        )
        values |= {
            "edits": {"subject": payload},
            "modified_params": {"batch_size": payload},
            "traveller": payload,
        }
        problems = dict.fromkeys((payload, "feedback", "note", "traveller"), payload)
        page = Markup(rendered(review_view(offer, values, problems=problems, notice=payload)))
        assert page.problems == []
        assert page.shapes() <= KNOWN | {("p", "role")}
