"""An unknown field is named together with the known field that was probably meant."""

import msgspec
import pytest

from placet.desk.draft import CaseDraft
from placet.errors import ValidationFailed
from placet.http.decoding import decode

DECODER = msgspec.json.Decoder(CaseDraft)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("promt", "prompt"),
        ("Prompt", "prompt"),
        ("time_out", "timeout"),
        ("defaultaction", "default_action"),
        ("contxt", "context"),
    ],
)
def test_mistyped_field_is_named_with_the_nearest_one(name: str, meant: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        decode(DECODER, msgspec.json.encode({"type": "approval", name: "May it go out?"}))
    assert refused.value.message == f"`{name}` is not a known property (did you mean `{meant}`?)."


@pytest.mark.parametrize("name", ["xyzzy", "", "p" * 1_000_000, "`", "\u202eprompt" * 20])
def test_field_that_resembles_nothing_gets_no_suggestion(name: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        decode(DECODER, msgspec.json.encode({"type": "approval", name: "?"}))
    assert refused.value.message.endswith("is not a known property.")
    assert len(refused.value.message) < 400
