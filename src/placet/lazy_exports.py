"""Public names that a package loads on first use, so that nobody pays for parts that are not used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def load_on_first_use(package: str, exports: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package; `exports` maps each public name to its module."""

    def load(name: str) -> object:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(exports[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
