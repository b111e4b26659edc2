import json
import math
import struct
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ValidationFailed
from placet.protocol.signed_result import MAX_DEPTH, build_signing_payload, format_wire_time
from tests.signing.samples import JSON, MOMENT, SAFE, SHOWN


def payload(data: Any = None, **changes: Any) -> bytes:
    fields = {"case_id": "case_1", "shown": SHOWN, "action": "approve", "completed_at": MOMENT, **changes}
    return build_signing_payload(data=data, **fields)


def nested(levels: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(levels - 1):
        data = {"in": data}
    return data


def test_payload_is_the_canonical_form_byte_for_byte():
    assert (
        payload({"b": 1, "a": "€"})
        == (
            '{"action":"approve","case_id":"case_1","completed_at":"2026-11-20T10:15:00.123456Z",'
            f'"data":{{"a":"€","b":1}},"shown":"{SHOWN}"}}'
        ).encode()
    )


@given(data=st.dictionaries(st.text(), JSON, max_size=4), case_id=st.text(), action=st.text(), at=st.text())
def test_payload_is_what_rfc8785_makes_of_the_whole_object(data: Any, case_id: str, action: str, at: str):
    whole = {"case_id": case_id, "shown": SHOWN, "action": action, "data": data, "completed_at": at}
    assert payload(data, case_id=case_id, action=action, completed_at=at) == rfc8785.dumps(whole)


def test_example_of_rfc8785_section_3_2_2_comes_out_as_printed():
    data = json.loads(
        r"""{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
             "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"""
    )
    assert (
        r'"data":{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + "'" + r'B\"\\\\\"/"}'
    ).encode() in payload(data)


def test_members_are_sorted_by_utf16_as_in_rfc8785_section_3_2_3():
    data = {
        "€": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\x80": "Control",
        "ö": "Latin Small Letter O With Diaeresis",
    }
    order = ["\r", "1", "\x80", "ö", "€", "\U0001f600", "\ufb33"]
    assert list(json.loads(payload(data))["data"]) == order


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555555, "333333333.3333333"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
    ],
)
def test_doubles_are_written_as_in_rfc8785_appendix_b(bits: int, text: str):
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert f'"data":{{"n":{text}}}'.encode() in payload({"n": number})


def test_no_data_is_the_same_as_empty_data():
    assert payload(None) == payload({}) == payload(MappingProxyType({}))


@pytest.mark.parametrize(
    "number", [SAFE + 1, -SAFE - 1, pytest.param(10**5000, id="endless"), math.nan, math.inf, -math.inf]
)
def test_numbers_without_one_spelling_are_refused(number: float):
    with pytest.raises(ValidationFailed, match="data"):
        payload({"n": [number]})


def test_largest_exact_integers_are_taken():
    assert b"[-9007199254740991,9007199254740991]" in payload({"n": [-SAFE, SAFE]})


@pytest.mark.parametrize(
    "data",
    [
        {"a": "\ud800"},
        {"\ud800": 1},
        {"a": {"\udfff\ud800": 1}},
        {1: "a"},
        {"a": {None: 1}},
        {"a": b"x"},
        {"a": {1, 2}},
    ],
)
def test_what_json_cannot_carry_is_refused(data: Any):
    with pytest.raises(ValidationFailed, match="data must be plain JSON"):
        payload(data)


@pytest.mark.parametrize("data", [[], "text", 3, True, [("a", 1)]])
def test_data_that_is_no_object_is_refused(data: Any):
    with pytest.raises(ValidationFailed, match="data must be an object"):
        payload(data)


def test_nesting_up_to_the_limit_is_taken_and_beyond_it_refused():
    assert payload(nested(MAX_DEPTH))
    with pytest.raises(ValidationFailed, match="nested"):
        payload(nested(MAX_DEPTH + 1))
    with pytest.raises(ValidationFailed, match="nested"):
        payload(nested(100_000))


def test_lists_count_as_levels_too():
    data: Any = []
    for _ in range(MAX_DEPTH):
        data = [data]
    with pytest.raises(ValidationFailed, match="nested"):
        payload({"list": data})


@pytest.mark.parametrize("field", ["case_id", "action", "completed_at"])
@pytest.mark.parametrize("value", [None, 3, ["approve"], "\ud800"])
def test_fields_that_are_no_text_are_refused_by_name(field: str, value: Any):
    with pytest.raises(ValidationFailed, match=field):
        payload(**{field: value})


@pytest.mark.parametrize("shown", ["", "5E" * 32, "5e" * 31, "5e" * 32 + "\n", None, b"5e" * 32])
def test_shown_must_be_a_digest(shown: Any):
    with pytest.raises(ValidationFailed, match="shown"):
        payload(shown=shown)


@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 11, 20, 10, 15, tzinfo=UTC),
        datetime(2026, 11, 20, 10, 15, 0, 1000, tzinfo=UTC),
        datetime(2026, 11, 20, 10, 15, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_moments_are_written_as_the_poll_response_writes_them(at: datetime):
    assert format_wire_time(at) == json.loads(msgspec.json.encode(at))
