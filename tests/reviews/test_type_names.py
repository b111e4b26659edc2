"""What is special about a review type stands in its folder; other modules know types from the registry."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from placet.protocol.review_types import STANDARD_TYPES
from placet.reviews.registry import DECLARATIONS, REVIEW_TYPES

SOURCE = Path(__file__).parents[2] / "src/placet"
FOLDERS = [path.parent.name for path in SOURCE.glob("reviews/*/declaration.py")]

ALLOWED_NAMES = {
    "hook/coding_agents/claude_code.py": "a member of the host's transcripts",
    "hook/coding_agents/codex.py": "the same",
    "hook/coding_agents/gate_questions.py": "opens cases in an agent process, without the rules of the types",
    "hook/frameworks/strands/plugin.py": "a member of the framework's tool calls",
    "protocol/review_types.py": "the protocol lists its types",
    "protocol/versions.py": "0.5 has no custom types, and its agents treat one as input",
    "relay/hold.py": "what a hold is about: a request, a response, or an agent's input",
    "relay/holds/hold_creator.py": "the same",
    "relay/holds/new_hold.py": "the same",
    "relay/holds/review_case.py": "the same",
    "relay/runtime/resumption.py": "the same",
    "reviews/held_messages/message_context.py": "the same",
    "reviews/held_messages/review_type.py": "the same",
}
ALLOWED_IMPORTS = {
    "hook/reviews.py": "opens the cases of tool calls",
    "relay/holds/review_case.py": "opens the cases of held messages",
}
ALLOWED_MENTIONS = {
    "protocol/review_types.py": "the protocol lists its types",
    "protocol/agent_access.py": "a state of an operation in the protocol's profile",
    "protocol/negotiation.py": "members of the protocol's messages",
    "desk/case_building.py": "the protocol's profile for operations of agents allows one type",
    "cli/conversion.py": "a member of the protocol's messages",
    "verification/passkeys.py": "a class of the library",
    "embed.py": "one public method for each type of the protocol, checked in tests/embed",
    "errors.py": "invalid_selection is a code of the protocol; ApprovalPending is an error of the hook",
    "server/case_api.py": "documents invalid_selection",
    "desk/grants.py": "a grant names calls of the case's tool_calls",
    "cli/main.py": "the overview of the commands, for people",
    "cli/demo_tour.py": "an example of a request, for people",
    "cli/mcp_gate.py": "a command of the hook",
    "cli/relay.py": "a command of the relay, whose held messages are approvals",
    "cli/relay_approvals.py": "the same",
}
# In these packages, approvals and tool calls are their own subject.
OTHER_SUBJECT = ("reviews", "hook", "relay", "testing")
# "input" and "custom" also name other things. The test for exact names finds the constant "input".
_WORDS = [name.rstrip("s") for name in {*STANDARD_TYPES, *FOLDERS, "tool_approval"} - {"input", "custom"}]
MENTION = re.compile(rf"(?<![a-z])(?:{'|'.join(sorted(_WORDS))})s?(?![a-z])")
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.alias, ast.keyword)


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Every module of ours, by its path."""
    paths = sorted(SOURCE.rglob("*.py"))
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())) for path in paths]


def identifiers_and_texts(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Every identifier and every text that is not a docstring, each with its line."""
    docstrings = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, NAMED):
            yield node.lineno, (node.arg if isinstance(node, ast.arg | ast.keyword) else node.name) or ""


def mentions_a_type(text: str) -> bool:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower().replace("-", "_")
    return MENTION.search(words) is not None


def imported_modules(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def imported_folders(module: ast.Module) -> set[str]:
    """The folders of review types that a module imports from."""
    found = (re.match(r"placet\.reviews\.(\w+)", name) for name in imported_modules(module))
    return {one[1] for one in found if one} & set(FOLDERS)


def test_the_protocols_list_is_the_registrys() -> None:
    assert tuple(name for name in REVIEW_TYPES if not name.startswith("x-")) == STANDARD_TYPES


def test_a_review_types_name_stands_only_in_its_folder() -> None:
    found = [
        f"{path}:{node.lineno} {node.value}"
        for path, module in modules()
        if not path.startswith("testing/") and path not in ALLOWED_NAMES
        for node in ast.walk(module)
        if isinstance(node, ast.Constant)
        and node.value in STANDARD_TYPES
        and not path.startswith(f"reviews/{node.value}/")
    ]
    assert found == []


def test_the_relay_and_the_hook_name_no_type_by_its_constant() -> None:
    constants = tuple(f"placet.protocol.review_types.{name.upper()}" for name in STANDARD_TYPES)
    importers = [
        path
        for path, module in modules()
        if path.startswith(("relay/", "hook/"))
        for name in imported_modules(module)
        if name.startswith((*constants, "placet.protocol.review_types.*"))
        or name == "placet.protocol.review_types"
    ]
    assert importers == []


def test_only_the_registry_imports_a_review_type() -> None:
    importers = {
        path for path, module in modules() if imported_folders(module) and not path.startswith("reviews/")
    }
    assert importers == ALLOWED_IMPORTS.keys()


def test_a_review_type_imports_no_other_except_the_type_that_it_is_a_variant_of() -> None:
    base = {
        declared.folder.name: DECLARATIONS[declared.type].folder.name for declared in DECLARATIONS.values()
    }
    found = [
        (path, other)
        for path, module in modules()
        if path.startswith("reviews/") and (own := path.split("/")[1]) in FOLDERS
        for other in imported_folders(module) - {own, base.get(own)}
    ]
    assert found == []


def test_no_identifier_or_text_elsewhere_mentions_a_type() -> None:
    found = {
        path: [f"{line} {text[:80]}" for line, text in identifiers_and_texts(module) if mentions_a_type(text)]
        for path, module in modules()
        if not path.startswith(OTHER_SUBJECT)
    }
    mentioning = {path: lines for path, lines in found.items() if lines}
    assert {path: lines for path, lines in mentioning.items() if path not in ALLOWED_MENTIONS} == {}
    assert ALLOWED_MENTIONS.keys() <= mentioning.keys()


def test_no_template_style_or_script_of_the_pages_mentions_a_type() -> None:
    files = [*SOURCE.glob("pages/templates/*.html"), *SOURCE.glob("pages/static/*/*")]
    found = [path.name for path in files if mentions_a_type(f"{path.stem} {path.read_text()}")]
    assert len(files) > 30
    assert found == []


def test_declarations_are_complete() -> None:
    for declared in DECLARATIONS.values():
        assert declared.title
        assert declared.template.startswith(declared.package.rpartition(".")[2])
        assert declared.example["type"] == declared.type
        assert declared.load("review_type").REVIEW_TYPE.declaration is declared
        for name in (*declared.styles, *declared.scripts.values()):
            assert (declared.folder / name).is_file()
        if declared.is_askable:
            assert declared.question.count("{service}") == 1
            assert declared.load("mcp_tool").TITLE
            assert declared.load("mcp_tool").USE_WHEN
