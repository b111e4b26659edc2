"""What the arguments of a call say about files: paths, patches, searches, edits. Pure."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

MAX_PATH_LENGTH = 4096
_EDIT_MEMBERS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("TargetContent", "ReplacementContent"),
)
_CONTENT_MEMBERS = ("content", "CodeContent")
_PATCHED_FILE = re.compile(r"^\s*\*\*\* (?:(?:Add|Update|Delete) File|Move to):\s*(.+)$", re.MULTILINE)
_GLOB_SIGNS = frozenset("*?[{")
_BRACES_WITH_PATH = re.compile(r"\{[^}]*(?:/|\.\.)")


def resolve_path(path: str, folder: str) -> str:
    """Return a path as an absolute one without `.` and `..`, by its text alone."""
    steps: list[str] = []
    for step in PurePosixPath(folder or "/", path).parts[1:]:
        if step == "..":
            del steps[-1:]
        else:
            steps.append(step)
    return "/" + "/".join(steps)


def list_paths(*names: str, folder: str) -> tuple[str, ...]:
    """Return every file that these names may stand for.

    Programs differ in what `..` after a link and `~` mean, so a name with one of them appears twice.
    """
    found = []
    for name in names:
        found.append(resolve_path(name, folder))
        if ".." in PurePosixPath(name).parts:
            found.append(str(PurePosixPath(folder or "/", name)))
        if name.startswith("~"):
            found.append(name)
    return tuple(dict.fromkeys(found))


def list_texts(value: object) -> Iterator[str]:
    """Yield each text in an argument that is short enough to be a path."""
    if isinstance(value, str):
        if 0 < len(value) <= MAX_PATH_LENGTH:
            yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from list_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from list_texts(one)


def find_search_root(pattern: str) -> str:
    """Return the folder below which everything is that a glob pattern can match; `/` if that is not clear."""
    steps = PurePosixPath(pattern).parts
    start = next((at for at, step in enumerate(steps) if _GLOB_SIGNS & set(step)), len(steps))
    if ".." in steps[start:] or _BRACES_WITH_PATH.search(pattern):
        return "/"
    return str(PurePosixPath(*steps[:start]))


def find_edit(arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the text that an edit replaces and the one that it writes, or None."""
    for old_name, new_name in _EDIT_MEMBERS:
        old, new = arguments.get(old_name), arguments.get(new_name)
        if isinstance(old, str) and isinstance(new, str):
            return old, new
    return None


def find_content(arguments: Mapping[str, Any]) -> str | None:
    """Return the content that a call writes to a file as a whole, or None."""
    found = (arguments.get(name) for name in _CONTENT_MEMBERS)
    return next((one for one in found if isinstance(one, str)), None)


def find_patched_files(patch: str) -> list[str]:
    """Return the files that a patch of `apply_patch` names. OpenCode takes a name up to its first colon."""
    named = [path.strip() for path in _PATCHED_FILE.findall(patch)]
    return [*named, *(path.partition(":")[0] for path in named if ":" in path)]


def format_patch(patch: str) -> str:
    """Return a patch of `apply_patch` as a diff: with the names of each file instead of its own lines."""
    lines = []
    for line in patch.rstrip("\n").split("\n"):
        named = _PATCHED_FILE.match(line)
        if named is not None:
            lines += [f"--- {named[1]}", f"+++ {named[1]}"]
        elif not line.startswith("*** "):
            lines.append(line)
    return "\n".join(lines)
