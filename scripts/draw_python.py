"""Draws the public Python names: each with its signature and what it promises."""

import inspect
from typing import Any

import placet
from placet import agent
from scripts.drawing import table

METHODS_OF = ("Placet", "PlacetClient")
AGENT_METHODS_OF = ("AsyncAgent", "ChannelBridge", "Callbacks", "PendingCases")


def draw() -> str:
    """Every name of `placet.__all__`, and the methods of the classes that one works with."""
    names = [name for name in placet.__all__ if name != "__version__"]
    rows = [(f"`{name}`", f"`{_module(name)}`", _sentence(getattr(placet, name))) for name in names]
    parts = [table(("Name", "Defined in", "What it is"), rows)]
    parts += [_methods(name, getattr(placet, name)) for name in METHODS_OF]
    return "\n\n".join(parts)


def draw_agent() -> str:
    """Every name of `placet.agent.__all__`, and the methods of the classes that one works with."""
    rows = [(f"`{name}`", _sentence(getattr(agent, name))) for name in agent.__all__ if name != "Outcome"]
    parts = [table(("Name", "What it is"), rows)]
    parts += [_methods(name, getattr(agent, name)) for name in AGENT_METHODS_OF]
    return "\n\n".join(parts)


def _module(name: str) -> str:
    return placet._EXPORTS[name]


def _methods(name: str, kind: type) -> str:
    shared = {method: value for base in kind.__bases__ for method, value in vars(base).items()}
    rows = [
        (f"`{method}{_parameters(value)}`", _sentence(value))
        for method, value in {**shared, **vars(kind)}.items()
        if not method.startswith("_") and inspect.isfunction(value)
    ]
    return f"### Methods of `{name}`\n\n{table(('Method', 'What it does'), rows)}"


def _parameters(value: Any) -> str:
    parameters = list(inspect.signature(value).parameters.values())[1:]
    return f"({', '.join(_parameter(one) for one in parameters)})"


def _parameter(parameter: inspect.Parameter) -> str:
    prefix = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    optional = "=…" if parameter.default is not parameter.empty else ""
    return f"{prefix}{parameter.name}{optional}"


def _sentence(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
