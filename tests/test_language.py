"""Language: unique class names, verbs for functions, no retired words (docs/reference/glossary.md)."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

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
SAMPLE_PROGRAMS = {
    "docs/howto/embed.md": "a service that books a trip",
    "docs/snippets/embed_questions.py": "a service that books a trip",
    "tests/hook/frameworks/test_openai_agents.py": "a tool that books a trip",
    "tests/hook/frameworks/test_pydantic_ai.py": "a tool that books a trip",
    "tests/hook/models/test_openai_chat.py": "a tool that clears a shelf",
    "tests/hook/test_decorated.py": "a tool that reads a book",
}
"""Programs from everyday life in which a retired word is a name."""
TEXT_SUFFIXES = {
    ".css",
    ".html",
    ".js",
    ".lua",
    ".md",
    ".po",
    ".proto",
    ".py",
    ".sh",
    ".sql",
    ".toml",
    ".txt",
}
TEXTS = (
    *ROOT.glob("*.md"),
    *ROOT.glob("*.toml"),
    ROOT / "Makefile",
    *(
        path
        for folder in ("src", "docs", "examples", "scripts")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in TEXT_SUFFIXES and path != GLOSSARY
    ),
)

IRREGULAR_PARTICIPLES = frozenset(
    re.findall(
        r"\w+",
        """
        become begun bent bitten blown borne bought bound broken brought built caught chosen clung come
        crept dealt done drawn driven drunk eaten fallen fed felt fled flown forbidden forgiven forgotten
        fought found frozen given gone gotten grown heard held hidden hung kept known laid lain led left
        lent lit lost made meant met mistaken overridden overtaken paid proven ridden risen rung said seen
        sent shaken shone shot shown shrunk slain slept slid sold sought spent spoken sprung spun stolen
        stood struck stuck sung sunk swept sworn taken taught thought thrown told torn understood undone
        unseen woken won worn wound woven written
        """,
    )
)
VERBS_IN_ED = frozenset(("embed", "exceed", "feed", "need", "proceed", "seed", "shred", "speed", "succeed"))
NOUNS = frozenset(
    re.findall(
        r"\w+",
        """
        address addresses amount attribute blocks body caption content data database date day
        deadline default dialect duration error event events excerpt facts field fields form header
        headers heading id inner input interaction item items key keys kind leaves lines mapping
        member message messages next now origin outcome outcomes owner page pages pair pairs
        parameter parser part parts path pending person pieces policy principal problem problems
        reason refusal requirement result results route routes row rows rule rules schema schemas
        seconds server session settings side size state status suggestions table target task tasks
        text texts time token type types updates url user value values verdict verdicts version
        versions view warning what words
        """,
    )
)
"""A private function whose name begins with one of these says what it returns and not what it does."""
ATTRIBUTE_DECORATORS = frozenset(
    ("cached_property", "lazy", "lazy_property", "overload", "property", "setter")
)

TYPE_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
STILL_AMBIGUOUS = {"Message", "Outcome"}
"""Names with two meanings in the hook and the relay. They stay until these are rebuilt. Add none."""

RIDDLE = re.compile(
    r"\b(?:whoever|such a one|nobody is known|what is over|hearsay|mumbles)(?![\w`])", re.IGNORECASE
)
"""Phrases that make a reader stop. A sentence names its subject instead."""

SUPERLATIVES = frozenset(
    ("deepest", "fewest", "largest", "least", "longest", "lowest", "most", "shortest", "slowest", "smallest")
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse_package() -> dict[Path, ast.Module]:
    """Parse every module of the package, by its path."""
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def relative_path(path: Path) -> str:
    return str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT))


def is_participle(word: str) -> bool:
    regular = len(word) > 4 and word.endswith("ed") and word not in VERBS_IN_ED
    return regular or word in IRREGULAR_PARTICIPLES


def is_attribute(function: Function) -> bool:
    """Whether callers read the function like an attribute."""
    names = {ast.unparse(one).split("(")[0].split(".")[-1] for one in function.decorator_list}
    return bool(names & ATTRIBUTE_DECORATORS)


@cache
def list_functions() -> list[tuple[str, Function]]:
    return [
        (f"{relative_path(path)}:{node.lineno} {node.name}", node)
        for path, tree in parse_package().items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    ]


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
            case ast.alias(asname=str(name)):
                yield f"{relative_path(path)}:{node.lineno}", name
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.ExceptHandler(name=str(name))
            ):
                yield f"{relative_path(path)}:{node.lineno}", name


def find_names(words: set[str], path: Path, tree: ast.Module) -> list[str]:
    """Return the names of a module that contain one of the words."""
    return [f"{where} {name}" for where, name in list_identifiers(path, tree) if words & split_words(name)]


def split_words(identifier: str) -> set[str]:
    """Return the words of an identifier in snake_case or CamelCase, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", identifier)}


def read_retired_words() -> set[str]:
    section = GLOSSARY.read_text().split("## Retired words", 1)[1]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def read_terms() -> list[str]:
    """Return the terms that the glossary defines, in lower case."""
    defined = GLOSSARY.read_text().split("## Retired words", 1)[0]
    terms = re.findall(r"^\| ([^|]+?) \|", defined, re.MULTILINE)
    return [term.lower() for term in terms if term != "Term" and set(term) != {"-"}]


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
    for path, tree in parse_package().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(relative_path(path))
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}


def test_a_type_alias_has_one_meaning_and_no_class_name() -> None:
    meanings = defaultdict(set)
    for path, tree in parse_package().items():
        for name, meaning in list_types(path, tree):
            meanings[name].add(meaning)
    several = {name for name, found in meanings.items() if len(found) > 1 and not name.startswith("_")}
    assert several == STILL_AMBIGUOUS


def converts_a_class(name: str, classes: set[str]) -> bool:
    """Whether a function such as `saved_checkpoint_from_row` is named by the class that it returns."""
    noun = name.strip("_").partition("_from_")[0]
    return "_from_" in name and noun.replace("_", "") in classes


def test_functions_are_not_named_by_a_participle() -> None:
    classes = {
        node.name.strip("_").lower()
        for tree in parse_package().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = [
        where
        for where, function in list_functions()
        if is_participle(function.name.strip("_").split("_")[0])
        and not is_attribute(function)
        and not converts_a_class(function.name, classes)
    ]
    assert found == []


def test_private_functions_are_not_named_by_a_noun() -> None:
    found = [
        where
        for where, function in list_functions()
        if re.match("_[a-z]", function.name)
        and function.name[1:].split("_")[0] in NOUNS
        and "_from_" not in function.name
        and not is_attribute(function)
    ]
    assert found == []


def test_no_retired_word_comes_back() -> None:
    retired = read_retired_words()
    assert retired > ORDINARY_ENGLISH
    found = [name for path, tree in parse_package().items() for name in find_names(retired, path, tree)]
    assert found == []


def test_no_retired_word_comes_back_in_tests_and_benchmarks() -> None:
    retired = read_retired_words()
    paths = [path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    may_occur = re.compile("|".join(retired), re.IGNORECASE)  # parsing all files would take seconds
    texts = {path: text for path in sorted(paths) if may_occur.search(text := path.read_text())}
    found = {relative_path(path): find_names(retired, path, ast.parse(text)) for path, text in texts.items()}
    assert {path: names for path, names in found.items() if names and path not in SAMPLE_PROGRAMS} == {}
    assert all(found[path] for path in SAMPLE_PROGRAMS if path in found), (
        "an exception that is no longer needed"
    )


def find_retired(text: str, retired: set[str]) -> set[str]:
    """Return the retired words of a text. One that is ordinary English counts only as part of a name."""
    found: set[str] = set()
    for token in re.findall(r"[A-Za-z_]\w*", text):
        words = split_words(token)
        is_name = "_" in token or len(words) > 1
        found |= words & (retired if is_name else retired - ORDINARY_ENGLISH)
    return found


def test_no_retired_word_comes_back_in_texts_of_any_language() -> None:
    retired = read_retired_words()
    found = [
        f"{relative_path(path)}:{number} {line.strip()}"
        for path in TEXTS
        if relative_path(path) not in SAMPLE_PROGRAMS
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if find_retired(line, retired)
    ]
    assert found == []


def test_the_glossary_defines_a_term_once_and_no_retired_word() -> None:
    terms = read_terms()
    assert len(terms) > 100
    assert [term for term, count in Counter(terms).items() if count > 1] == []
    assert read_retired_words() & {*terms} == set()


def test_no_file_has_a_retired_name() -> None:
    retired = read_retired_words()
    folders = [ROOT / name for name in ("src", "docs", "examples", "scripts", "bench", "tests")]
    paths = [path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts]
    assert [relative_path(path) for path in paths if split_words(path.name) & retired] == []


@pytest.mark.parametrize(
    "text",
    [
        "PLACET_SHELF_SIZE",
        "placet_glances_total glance_failed error=%s",
        "CREATE TABLE roster (id)",
        ".switchboard > summary",
        'msgid "Open the door"',
        "const hearsay = 1",
        "shelfLife",
    ],
)
def test_a_retired_word_is_seen_in_any_language(text: str) -> None:
    assert find_retired(text, read_retired_words())


def test_no_sentence_has_a_phrase_that_readers_must_decode() -> None:
    folders = [ROOT / name for name in ("src", "examples", "scripts", "bench", "tests")]
    found = [
        f"{relative_path(path)}:{number} {line.strip()}"
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in TEXT_SUFFIXES and path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if RIDDLE.search(line)
    ]
    assert found == []


def test_limits_are_named_max_and_min() -> None:
    found = [
        f"{where} {name}"
        for path, tree in parse_package().items()
        for where, name in list_identifiers(path, tree)
        if name.isupper() and split_words(name) & SUPERLATIVES
    ]
    assert found == []


def test_no_module_or_function_has_a_catch_all_name() -> None:
    catch_all = {"utils", "util", "helpers", "helper", "common", "misc"}
    modules = [relative_path(path) for path in parse_package() if {path.stem, path.parent.name} & catch_all]
    functions = [where for where, function in list_functions() if function.name.strip("_") in catch_all]
    assert modules + functions == []
