import msgspec
import pytest

from placet.errors import ValidationFailed
from placet.protocol.surface import (
    INTEROP_PROFILE,
    EmbeddedSurface,
    Surface,
    build_surface_interop,
    parse_surface,
    parse_surface_interop,
)

PAGE = "https://jobs.example/review/abc?token=x"


def make_surface(**changes):
    given = {
        "id": "main",
        "format": "a2ui",
        "version": "0.9",
        "fallback_review_url": PAGE,
        "payload": {"a": [1]},
    }
    return EmbeddedSurface(**{**given, **changes})


def make_wrapper(**changes):
    return {**build_surface_interop("review_abc", [make_surface()]), **changes}


def test_a_declaration_names_format_and_version():
    assert parse_surface({"format": "json-render", "version": "1.0"}) == Surface(
        format="json-render", version="1.0"
    )


def test_a_declaration_without_version_travels_without_one():
    assert msgspec.to_builtins(parse_surface({"format": "a2ui"})) == {"format": "a2ui"}


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"format": 1},
        {"format": ""},
        {"format": "a\nb"},
        {"format": "\ud800"},
        {"format": "x" * 201},
        {"format": "a", "version": 2},
        {"format": "a", "version": " "},
        {"format": "a", "payload": {}},
        {"format": "a", "\ud800": 1},
    ],
)
def test_a_malformed_declaration_is_refused_by_name(raw):
    with pytest.raises(ValidationFailed, match="surface") as refusal:
        parse_surface(raw)
    msgspec.json.encode(refusal.value.body())


def test_a_wrapper_reads_back_as_it_was_built():
    surfaces = (make_surface(), make_surface(id="second", catalog_id="basic", payload=None))
    built = build_surface_interop("review_abc", surfaces)
    assert built["profile"] == INTEROP_PROFILE
    assert "catalog_id" not in built["surfaces"][0]
    assert built["surfaces"][1]["payload"] is None
    assert parse_surface_interop(built).surfaces == surfaces


def test_an_http_fallback_is_allowed_on_localhost_only():
    build_surface_interop("c", [make_surface(fallback_review_url="http://localhost:8000/review/c")])
    with pytest.raises(ValidationFailed, match=r"surfaces\[0\].fallback_review_url must be an https URL"):
        build_surface_interop("c", [make_surface(fallback_review_url="http://jobs.example/review/c")])


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (make_wrapper(profile="hitl-surface-interop/v9"), "profile must be"),
        (make_wrapper(case_id="a b"), "case_id takes"),
        (make_wrapper(case_id=""), "case_id takes"),
        (make_wrapper(surfaces=[]), "surfaces must hold 1 to 50"),
        (
            make_wrapper(surfaces=make_wrapper()["surfaces"] * 2),
            r"surfaces\[1\].id is used by an earlier surface",
        ),
        (make_wrapper(extra=1), "`extra` is not a known property"),
        (make_wrapper(surfaces=[{"id": "a"}]), r"surfaces\[0\]: `format` is missing"),
        ({"profile": INTEROP_PROFILE}, "`case_id` is missing"),
        ("text", "expected object, got string"),
    ],
)
def test_a_malformed_wrapper_is_refused_with_its_place(raw, complaint):
    with pytest.raises(ValidationFailed, match=complaint) as refusal:
        parse_surface_interop(raw)
    assert refusal.value.details["path"]


def test_an_enormous_wrapper_is_refused():
    with pytest.raises(ValidationFailed, match="1 to 50"):
        build_surface_interop("c", [make_surface(id=str(n)) for n in range(51)])


@pytest.mark.parametrize("payload", [object(), {"a": "\ud800"}, {1.5j: 1}])
def test_a_payload_that_json_cannot_carry_is_refused(payload):
    with pytest.raises(ValidationFailed, match="payload must be JSON"):
        build_surface_interop("c", [make_surface(payload=payload)])


def test_a_payload_nested_beyond_reason_is_refused():
    payload: list = []
    for _ in range(100_000):
        payload = [payload]
    with pytest.raises(ValidationFailed, match="payload must be JSON"):
        build_surface_interop("c", [make_surface(payload=payload)])
