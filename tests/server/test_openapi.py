"""The API's description: sound by its own standard, complete, and true of what the server sends."""

import re
from typing import Any

import msgspec
import pytest
import schemathesis
from jsonschema import Draft202012Validator

from placet.errors import PlacetError
from placet.server.api_description import API_ROUTES, build_openapi_document

DOCUMENT = build_openapi_document("https://placet.example")
# Pages, their style and the demo are for people and try-outs; they are no part of the API.
NOT_API = re.compile(r"/((review|inbox|passkeys|static|docs|api/demo)\b|$)")


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    ]


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    """A validator that knows the document's components."""
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def shown_examples() -> list[tuple[str, dict[str, Any], Any]]:
    """Every JSON example in the document, with the schema it stands beside."""
    found = []
    for method, path, operation in operations():
        contents = [("body", operation["requestBody"])] if "requestBody" in operation else []
        contents += list(operation["responses"].items())
        for part, holder in contents:
            for media in holder.get("content", {}).values():
                for name, example in media.get("examples", {}).items():
                    found.append((f"{method} {path} {part} {name}", media["schema"], example["value"]))
    return found


def test_the_document_is_openapi_3_1():
    assert DOCUMENT["openapi"].startswith("3.1")
    schemathesis.openapi.from_dict(msgspec.json.decode(msgspec.json.encode(DOCUMENT))).validate()


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_schema_is_json_schema(name):
    Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


def test_every_reference_leads_somewhere():
    text = msgspec.json.encode(DOCUMENT).decode()
    for pointer in set(re.findall(r'"\$ref":"#/([^"]+)"', text)):
        place = DOCUMENT
        for step in pointer.split("/"):
            place = place[step]


def test_every_served_route_is_described_and_every_described_one_is_served(server):
    served = {
        (route.method.lower(), route.path) for route in server.parts.routes if not NOT_API.match(route.path)
    }
    assert served == {(method, path) for method, path, _ in operations()}


def test_every_error_a_caller_can_meet_is_listed():
    def family(error: type[PlacetError]) -> set[type[PlacetError]]:
        return {error}.union(*(family(kind) for kind in error.__subclasses__()))

    codes = {error.code for error in family(PlacetError) if error.status == 503 or 400 <= error.status < 500}
    assert codes == set(DOCUMENT["components"]["schemas"]["Error"]["properties"]["error"]["enum"])


def test_each_route_names_the_codes_of_each_of_its_statuses():
    for route in API_ROUTES:
        responses = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
        for error in route.errors:
            schema = responses[str(error.status)]["content"]["application/json"]["schema"]
            assert error.code in schema["properties"]["error"]["enum"], (route.path, error)


def test_unknown_fields_of_requests_are_refused_by_the_schemas_too():
    for _, path, operation in operations():
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            named = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert named["additionalProperties"] is False, path


@pytest.mark.parametrize(("place", "schema", "value"), shown_examples())
def test_examples_fit_the_schemas_beside_them(place, schema, value):
    validator(schema).validate(value)


@pytest.mark.parametrize(
    "draft",
    [
        {"type": "x-compare", "prompt": "Which?"},
        {"type": "approval", "prompt": "May I?", "actions": ["approve"]},
        {"type": "approval", "prompt": "May I?", "default_action": "approve"},
        {
            "type": "confirmation",
            "prompt": "May I?",
            "default_action": "approve",
            "allow_default_approve": True,
        },
        {"type": "approval", "prompt": "   "},
        {"type": "approval", "prompt": "May I?", "timeout": "soon"},
        {"type": "approval", "prompt": "May I?", "spec_version": "1.0"},
        {"type": "approval", "prompt": "May I?", "callback_url": "ftp://agent.example"},
        {"type": "approval\n", "prompt": "May I?"},
        {"type": "approval", "prompt": "May I?", "surprise": 1},
        {"prompt": "May I?"},
    ],
    ids=lambda draft: " ".join(f"{key}={value}" for key, value in draft.items()),
)
def test_what_the_schema_of_a_draft_refuses_the_server_refuses(draft, client):
    schema = DOCUMENT["paths"]["/v1/cases"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert not validator(schema).is_valid(draft)
    assert client.post("/v1/cases", json=draft).status_code == 400


def test_polls_never_carry_null_and_the_schema_says_so(server, client):
    hitl = server.open(client)
    schema = DOCUMENT["components"]["schemas"]["PollResponse"]
    assert {"type": "null"} not in [
        branch for shown in schema["properties"].values() for branch in shown.get("anyOf", [])
    ]
    poll = client.get(hitl["poll_url"]).json()
    assert None not in poll.values()
    validator(schema).validate(poll)


def test_the_description_names_its_own_server(server, client):
    document = client.get("/openapi.json").json()
    assert document["servers"] == [{"url": server.url}]
    assert document["paths"].keys() == DOCUMENT["paths"].keys()


def test_the_same_description_is_drawn_once():
    assert build_openapi_document("https://placet.example") is DOCUMENT
