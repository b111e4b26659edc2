"""Refusing arguments of the wrong type when an object is built, with a sentence that says what to pass."""

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

NO_HOOKS = (
    "hooks: there is no hook, so every call would run without approval."
    ' Pass a hook, such as HumanInTheLoopHook({"send_mail": True}).'
)
_SHOWN_CHARACTERS = 40


def refuse(name: str, expected: str, value: object) -> NoReturn:
    """Raise ValueError: the argument must be something else."""
    raise ValueError(f"{name}: must be {expected}, not {_describe(value)}.")


def require_text(name: str, value: object, expected: str = "text") -> None:
    """Raise ValueError unless the value is text."""
    if not isinstance(value, str):
        refuse(name, expected, value)


def require_flag(name: str, value: object) -> None:
    """Raise ValueError unless the value is True or False."""
    if not isinstance(value, bool):
        refuse(name, "True or False", value)


def require_function(name: str, value: object, expected: str) -> None:
    """Raise ValueError unless the value is a function."""
    if not callable(value) or isinstance(value, type):
        refuse(name, expected, value)


def require_number(name: str, value: object, *, at_least: float = 0.0) -> None:
    """Raise ValueError unless the value is a number, large enough."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(name, "a number", value)
    if not value >= at_least:
        raise ValueError(f"{name}: must be at least {at_least:g}.")


def require_duration(name: str, value: object, *, allows_seconds: bool = False) -> timedelta:
    """Return the duration; raises ValueError for other values, and if it is not positive."""
    expected = "a number of seconds or a timedelta" if allows_seconds else "a timedelta"
    if isinstance(value, timedelta):
        duration = value
    elif allows_seconds and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            duration = timedelta(seconds=value)
        except (OverflowError, ValueError):
            raise ValueError(f"{name}: {value} seconds is not a duration.") from None
    else:
        refuse(name, expected, value)
    if duration <= timedelta():
        raise ValueError(f"{name}: must be longer than zero.")
    return duration


def require_names(name: str, value: object, expected: str = "a list of tool names") -> Collection[str]:
    """Return the names; raises ValueError unless they are texts in a list or another collection."""
    if isinstance(value, str | bytes | type) or not isinstance(value, Iterable):
        refuse(name, expected, value)
    names = tuple(value)
    for each in names:
        require_text(name, each, f"{expected}, each a text")
    return names


def require_list(name: str, value: Any, expected: str) -> tuple[Any, ...]:
    """Return what is in a list or another collection; raises ValueError for other values."""
    if isinstance(value, str | bytes | Mapping | type) or not isinstance(value, Iterable):
        refuse(name, expected, value)
    return tuple(value)


def require_methods(name: str, value: object, methods: Sequence[str], expected: str) -> None:
    """Raise ValueError unless the value is an object with these methods."""
    if isinstance(value, type) or not all(callable(getattr(value, each, None)) for each in methods):
        refuse(name, expected, value)


def require_path(name: str, value: object, expected: str) -> Path:
    """Return the absolute path; raises ValueError unless the value is a path that is not empty."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        refuse(name, expected, value)
    return Path(value).absolute()


def require_hooks(hooks: Iterable[object], *, allows_none: bool = False) -> None:
    """Raise ValueError unless each value is a hook, and there is one."""
    given = tuple(hooks)
    if not given and not allows_none:
        raise ValueError(NO_HOOKS)
    for each in given:
        require_methods("hooks", each, ["evaluate"], 'hooks, such as HumanInTheLoopHook({"send_mail": True})')


def require_reviews(value: object) -> None:
    """Raise ValueError unless the value is None or opens cases."""
    if value is not None:
        methods = ("open_case", "poll_case", "withdraw")
        require_methods("reviews", value, methods, "ServerReviews(…), EmbeddedReviews(…) or None")


def require_grants(value: object) -> None:
    """Raise ValueError unless the value is None or a source of grants."""
    if value is not None:
        require_methods(
            "grants", value, ["use"], "ServerGrants(…), EmbeddedGrants(…), MemoryGrants() or None"
        )


def require_thread_id(value: object, call: str = "resume(thread_id, feedback)") -> None:
    """Raise ValueError unless the value is text: the arguments of `call` may have been swapped."""
    require_text("thread_id", value, f"text, as in {call}")


def require_known_options(options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise TypeError for an option that does not exist."""
    if unknown := sorted(options.keys() - set(known)):
        raise TypeError(f"There is no option {', '.join(unknown)}; use {', '.join(sorted(known))}.")


def require_parameters(name: str, function: Callable[..., Any], *given: str) -> None:
    """Raise ValueError if the function cannot be called with these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given)
    except TypeError:
        raise ValueError(f"{name}: must be a function of {' and '.join(given)}.") from None


def _describe(value: object) -> str:
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__} itself; call it: {value.__name__}(…)"
    if isinstance(value, str):
        return f"the text {value[:_SHOWN_CHARACTERS]!r}"
    return f"{'an' if type(value).__name__[:1] in 'aeiouAEIOU' else 'a'} {type(value).__name__}"
