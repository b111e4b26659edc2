"""Names in the code: unique classes, verbs for functions, no retired terms (docs/reference/glossary.md)."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "placet"
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
TREES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

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

Function = ast.FunctionDef | ast.AsyncFunctionDef


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def is_participle(word: str) -> bool:
    regular = len(word) > 4 and word.endswith("ed") and word not in VERBS_IN_ED
    return regular or word in IRREGULAR_PARTICIPLES


def is_attribute(function: Function) -> bool:
    """Whether callers read the function like an attribute."""
    names = {ast.unparse(one).split("(")[0].split(".")[-1] for one in function.decorator_list}
    return bool(names & ATTRIBUTE_DECORATORS)


def list_functions() -> Iterator[tuple[str, Function]]:
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield f"{relative(path)}:{node.lineno} {node.name}", node


def list_identifiers() -> Iterator[tuple[str, str]]:
    """Yield the place and the name of every module, class, function and parameter."""
    for path, tree in TREES.items():
        yield relative(path), path.parent.name if path.stem == "__init__" else path.stem
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | Function):
                yield f"{relative(path)}:{node.lineno}", node.name
            elif isinstance(node, ast.arg):
                yield f"{relative(path)}:{node.lineno}", node.arg


def split_words(identifier: str) -> set[str]:
    """Return the words of an identifier in snake_case or CamelCase, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", identifier)}


def read_retired_words() -> set[str]:
    section = GLOSSARY.read_text().split("## Retired words", 1)[1]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_a_public_class_name_exists_once() -> None:
    modules = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(relative(path))
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}


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
    assert retired
    assert [f"{where} {name}" for where, name in list_identifiers() if retired & split_words(name)] == []


def test_no_module_has_a_catch_all_name() -> None:
    catch_all = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [where for where, name in list_identifiers() if name in catch_all] == []
