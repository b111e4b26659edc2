"""Draws the table of settings: what there is, its default, its flag and its meaning, as the code says it."""

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec

from assent.cli.serve import serve
from assent.settings import PREFIX, Settings
from scripts.drawing import code, table


def draw() -> str:
    """One row for each setting."""
    flags = {param.name: param.opts[0] for param in serve.params}
    about = meanings()
    rows = [
        (
            code(name),
            code(_toml(default)) if default is not None else "not set",
            code(PREFIX + name.upper()),
            code(flags[name]) if name in flags else "",
            about[name] + _choices(name),
        )
        for name, default in msgspec.structs.asdict(Settings()).items()
    ]
    return table(("Setting", "Default", "Environment", "Flag of `serve`", "Meaning"), rows)


def meanings() -> dict[str, str]:
    """The sentence that stands below each field; raises KeyError where one is missing."""
    body = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body[0]
    nodes = body.body if isinstance(body, ast.ClassDef) else []
    found = {
        field.target.id: said.value.value
        for field, said in pairwise(nodes)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
    }
    return {name: str(found[name]) for name in Settings.__struct_fields__}


def _choices(name: str) -> str:
    hint = get_type_hints(Settings)[name]
    return f" One of {', '.join(map(code, get_args(hint)))}." if get_origin(hint) is Literal else ""


def _toml(value: object) -> str:
    return msgspec.json.encode(value).decode()
