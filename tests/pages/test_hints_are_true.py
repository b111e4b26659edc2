"""What pages and guides say about questions and pictures is what the server does."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from placet.desk.case_building import prepare_offer
from placet.desk.case_limits import Limits
from placet.desk.draft import draft_from
from placet.errors import ValidationFailed
from placet.reviews.registry import REVIEW_TYPES
from tests.pages.gallery import offer_of, rendered, review_view
from tests.pages.markup import Markup

GUIDE = Path("docs/howto/content.md")
ALL_REQUIRED = "Every question here needs an answer."
ONE_REQUIRED = "This question needs an answer."
SOME_REQUIRED = "Questions not marked as optional need an answer."


def ask(*fields: dict[str, Any]) -> str:
    labelled = [{"label": field["key"].title(), "type": "text", **field} for field in fields]
    body = {"type": "input", "prompt": "Well?", "context": {"form": {"fields": labelled}}}
    return Markup(rendered(review_view(offer_of(body)))).text


SHOWN_LATER = {"conditional": {"field": "name", "operator": "eq", "value": "Ada"}}


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ([{"key": "name", "required": True}, {"key": "town", "required": True}], ALL_REQUIRED),
        ([{"key": "name", "required": True}], ONE_REQUIRED),
        ([{"key": "name", "required": True}, {"key": "town"}], SOME_REQUIRED),
        ([{"key": "name", "required": True}, {"key": "town", **SHOWN_LATER}], SOME_REQUIRED),
        ([{"key": "name", "required": True}, {"key": "town", "required": True, **SHOWN_LATER}], ALL_REQUIRED),
        ([{"key": "name"}, {"key": "town", **SHOWN_LATER}], None),
        ([{"key": "name"}, {"key": "town", "required": True, **SHOWN_LATER}], SOME_REQUIRED),
    ],
)
def test_no_optional_question_stands_below_a_hint_that_all_need_an_answer(
    fields: list[dict[str, Any]], hint: str | None
) -> None:
    text = ask(*fields)
    assert [one for one in (ALL_REQUIRED, ONE_REQUIRED, SOME_REQUIRED) if one in text] == [hint] * bool(hint)


def test_a_picture_of_the_documented_size_is_accepted_and_shown() -> None:
    found = re.search(r"room for a picture of\s+(\d+) KB", GUIDE.read_text("utf-8"))
    assert found
    picture = (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\0\x20" * 2).ljust(int(found[1]) * 1000, b"\0")
    artifact = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    body = {"type": "approval", "prompt": "Print it?", "context": {"artifact": artifact}}
    offer = prepare(body)
    assert f'<img src="{artifact}"' in rendered(review_view(offer))
    with pytest.raises(ValidationFailed, match="context: is larger than 262144 bytes"):
        prepare({**body, "context": {"artifact": artifact, "again": artifact[:10_000]}})


def prepare(body: dict[str, Any]) -> Any:
    rules = REVIEW_TYPES[body["type"]]
    return prepare_offer(
        draft_from(body), rules, entry_point="service", limits=Limits(), service=None, salt=""
    )
