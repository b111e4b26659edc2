"""A review type's name stands in its folder, and elsewhere only where the protocol itself needs it."""

import ast
from pathlib import Path

from placet.protocol.review_types import STANDARD_TYPES
from placet.reviews.registry import DECLARATIONS, REVIEW_TYPES

SOURCE = Path(__file__).parents[2] / "src/placet"
ALLOWED = {
    "protocol/review_types.py": "the protocol lists its types",
    "relay/holds/frozen_message.py": "what a hold is about: a request, a response, or an agent's input",
    "relay/holds/hold_service.py": "the same",
    "relay/holds/case_draft.py": "the same",
    "relay/holds/resumption.py": "the same",
    "reviews/held_messages/message_context.py": "the same",
    "reviews/held_messages/review_type.py": "the same",
}


def test_the_registry_has_every_type_of_the_protocol() -> None:
    assert set(STANDARD_TYPES) == set(REVIEW_TYPES)


def test_a_review_types_name_stands_only_in_its_folder() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] == "testing" or str(place) in ALLOWED:
            continue
        constants = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        found += [
            f"{place}:{node.lineno} {node.value}"
            for node in constants
            if node.value in STANDARD_TYPES and place.parts[:2] != ("reviews", node.value)
        ]
    assert found == []


def test_no_template_of_the_pages_names_a_type() -> None:
    quoted = [f'"{name}"' for name in STANDARD_TYPES if name != "input"]  # also the name of an HTML element
    found = [
        (path.name, name)
        for path in (SOURCE / "pages/templates").glob("*.html")
        for name in quoted
        if name in path.read_text()
    ]
    assert found == []


def test_declarations_are_complete() -> None:
    for declared in DECLARATIONS.values():
        assert declared.title
        assert declared.template.startswith(declared.package.rpartition(".")[2])
        assert declared.example["type"] == declared.type
        assert declared.load("review_type").REVIEW_TYPE.declaration is declared
        if declared.is_askable:
            assert declared.question.count("{service}") == 1
            assert declared.load("mcp_tool").TITLE
