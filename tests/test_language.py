"""Language: unique class names, verbs for functions, no retired words (docs/reference/glossary.md)."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "placet"
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
ORDINARY_ENGLISH = frozenset(
    (
        "aside",
        "book",
        "bookkeeping",
        "faces",
        "filing",
        "filings",
        "glance",
        "keyring",
        "shelf",
        "standing",
        "telling",
    )
)
"""Retired as names, but allowed in sentences."""
SAMPLE_TOOLS = {
    "tests/hook/frameworks/test_openai_agents.py": "a tool that books a trip",
    "tests/hook/frameworks/test_pydantic_ai.py": "a tool that books a trip",
    "tests/hook/models/test_openai_chat.py": "a tool that clears a shelf",
    "tests/hook/test_decorated.py": "a tool that reads a book",
}
"""Tests with a tool from everyday life whose name or parameter is a retired word."""
PROSE = (
    *(ROOT.glob("*.md")),
    *(path for path in (ROOT / "docs").rglob("*.md") if path != GLOSSARY),
    *(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".html", ".js", ".md", ".sql"}),
)

IRREGULAR_PARTICIPLES = frozenset(
    re.findall(
        r"\w+",
        """
        begun borne bound bought brought broken built chosen come dealt done drawn driven fed felt
        found given gone grown heard held hidden kept known laid led left lent lost made meant met paid
        said seen sent shown sold sought spent spoken stolen stood struck swept taken taught thought
        thrown told understood woken won worn wound written
        """,
    )
)
VERBS_IN_ED = frozenset(("embed", "exceed", "feed", "need", "proceed", "seed", "shred", "speed", "succeed"))
ATTRIBUTE_DECORATORS = frozenset(
    ("cached_property", "lazy", "lazy_property", "overload", "property", "setter")
)

TYPE_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
STILL_AMBIGUOUS = {"Message", "Outcome", "Verdict"}
"""Names with two meanings in the hook and the relay. They stay until these are rebuilt. Add none."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse_folder(folder: Path) -> dict[Path, ast.Module]:
    """Parse every module of a folder, by its path."""
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def relative_path(path: Path) -> str:
    return str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT))


def is_participle(word: str) -> bool:
    regular = len(word) > 4 and word.endswith("ed") and word not in VERBS_IN_ED
    return regular or word in IRREGULAR_PARTICIPLES


def is_attribute(function: Function) -> bool:
    """Whether callers read the function like an attribute."""
    names = {ast.unparse(one).split("(")[0].split(".")[-1] for one in function.decorator_list}
    return bool(names & ATTRIBUTE_DECORATORS)


def list_functions() -> Iterator[tuple[str, Function]]:
    for path, tree in parse_folder(PACKAGE).items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield f"{relative_path(path)}:{node.lineno} {node.name}", node


def list_identifiers(path: Path, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the position and the name of a module and of everything that it defines or assigns."""
    yield relative_path(path), path.parent.name if path.stem == "__init__" else path.stem
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{relative_path(path)}:{node.lineno}", node.name
            case ast.arg():
                yield f"{relative_path(path)}:{node.lineno}", node.arg
            case ast.Name(ctx=ast.Store()):
                yield f"{relative_path(path)}:{node.lineno}", node.id
            case ast.Attribute(ctx=ast.Store()):
                yield f"{relative_path(path)}:{node.lineno}", node.attr


def find_names(words: set[str], path: Path, tree: ast.Module) -> list[str]:
    """Return the names of a module that contain one of the words."""
    return [f"{where} {name}" for where, name in list_identifiers(path, tree) if words & split_words(name)]


def split_words(identifier: str) -> set[str]:
    """Return the words of an identifier in snake_case or CamelCase, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", identifier)}


def read_retired_words() -> set[str]:
    section = GLOSSARY.read_text().split("## Retired words", 1)[1]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def list_types(path: Path, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name of every public class and type alias, and what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"{relative_path(path)}:{node.lineno}"
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if TYPE_NAME.fullmatch(name) and not ast.unparse(value).startswith("TypeVar("):
            yield name, ast.unparse(value)


def test_a_public_class_name_exists_once() -> None:
    modules = defaultdict(list)
    for path, tree in parse_folder(PACKAGE).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(relative_path(path))
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}


def test_a_type_alias_has_one_meaning_and_no_class_name() -> None:
    meanings = defaultdict(set)
    for path, tree in parse_folder(PACKAGE).items():
        for name, meaning in list_types(path, tree):
            meanings[name].add(meaning)
    several = {name for name, found in meanings.items() if len(found) > 1 and not name.startswith("_")}
    assert several == STILL_AMBIGUOUS


def test_functions_are_not_named_by_a_participle() -> None:
    found = [
        where
        for where, function in list_functions()
        if is_participle(function.name.strip("_").split("_")[0])
        and not is_attribute(function)
        and not split_words(function.name) & {"from", "to"}
    ]
    assert found == []


def test_no_retired_word_comes_back() -> None:
    retired = read_retired_words()
    assert retired > ORDINARY_ENGLISH
    found = [name for path, tree in parse_folder(PACKAGE).items() for name in find_names(retired, path, tree)]
    assert found == []


def test_no_retired_word_comes_back_in_tests_and_benchmarks() -> None:
    retired = read_retired_words()
    trees = parse_folder(ROOT / "tests") | parse_folder(ROOT / "bench")
    found = {relative_path(path): find_names(retired, path, tree) for path, tree in trees.items()}
    assert {path: names for path, names in found.items() if names and path not in SAMPLE_TOOLS} == {}
    assert all(found[path] for path in SAMPLE_TOOLS), "an exception that is no longer needed"


def test_no_retired_word_comes_back_in_docs_docstrings_and_pages() -> None:
    words = "|".join(sorted(read_retired_words() - ORDINARY_ENGLISH))
    retired = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    found = [
        f"{relative_path(path)}:{number} {line.strip()}"
        for path in PROSE
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if retired.search(line)
    ]
    assert found == []


def test_no_module_or_function_has_a_catch_all_name() -> None:
    catch_all = {"utils", "util", "helpers", "helper", "common", "misc"}
    modules = [
        relative_path(path) for path in parse_folder(PACKAGE) if {path.stem, path.parent.name} & catch_all
    ]
    functions = [where for where, function in list_functions() if function.name.strip("_") in catch_all]
    assert modules + functions == []
