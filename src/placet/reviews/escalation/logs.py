"""Logs in a context: the newest lines one by one, with their levels; the earlier ones as one text."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from placet.text.wording import phrase

TITLES: Mapping[str, str] = {
    **dict.fromkeys(("log", "logs", "log_lines", "log_excerpt", "log_tail", "recent_logs"), phrase("Log")),
    **dict.fromkeys(("stack_trace", "stacktrace", "traceback", "stack"), phrase("Where it happened")),
    **dict.fromkeys(("stderr", "stdout", "output"), phrase("Output")),
}
NEWEST = 25
LEVELS: Mapping[str, str] = {
    "fatal": phrase("Fatal"),
    "critical": phrase("Fatal"),
    "error": phrase("Error"),
    "err": phrase("Error"),
    "warning": phrase("Warning"),
    "warn": phrase("Warning"),
    "info": phrase("Info"),
    "debug": phrase("Debug"),
    "trace": phrase("Debug"),
}
GRADES = {"Fatal": "bad", "Error": "bad", "Warning": "warn"}

_LEVEL = re.compile(r"\b(FATAL|CRITICAL|ERROR|WARNING|WARN|ERR)\b")
_TEXTS = ("message", "msg", "text", "line", "event")
_TIMES = ("time", "timestamp", "ts", "at", "date")
_LEVEL_NAMES = ("level", "severity", "lvl")


def read_logs(source: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the logs in these facts by key."""
    read = {name: _read_lines(source.get(name), name) for name in TITLES}
    return {name: {"title": TITLES[name], **_split_newest(lines)} for name, lines in read.items() if lines}


def _read_lines(raw: object, name: str) -> list[dict[str, Any]]:
    if isinstance(raw, str) and ("\n" in raw.strip() or name.startswith("log")):
        # Split at line ends only: a form feed is a hidden character that must be shown.
        lines = raw.strip("\r\n").replace("\r\n", "\n").split("\n")
        return [_read_plain_line(line) for line in lines] if raw.strip() else []
    if not isinstance(raw, list | tuple) or not raw:
        return []
    read = [_read_one(entry) for entry in raw]
    return [line for line in read if line] if all(read) else []


def _read_one(entry: object) -> dict[str, Any] | None:
    if isinstance(entry, str):
        return _read_plain_line(entry)
    text_name = _find_text_key(entry, _TEXTS) if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or text_name is None:
        return None
    time_name, level_name = _find_text_key(entry, _TIMES), _find_text_key(entry, _LEVEL_NAMES)
    level = LEVELS.get(str(entry.get(level_name)).lower()) if level_name else None
    known = {text_name, time_name, level_name if level else None}
    rest = [f"{key}={_format_value(value)}" for key, value in entry.items() if key not in known]
    return {
        "level": level,
        "said_level": entry[level_name] if level_name and level else None,
        "grade": GRADES.get(level or ""),
        "at": entry[time_name] if time_name else None,
        "text": " ".join([entry[text_name], *rest]),
    }


def _read_plain_line(text: str) -> dict[str, Any]:
    """Return a text line. Its level is part of the text, so only the grade is set."""
    found = _LEVEL.search(text)
    grade = GRADES.get(LEVELS[found[0].lower()]) if found else None
    return {"level": None, "said_level": None, "grade": grade, "at": None, "text": text}


def _split_newest(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Separate the newest lines from the earlier ones, in either order."""
    times = [line["at"] for line in (lines[0], lines[-1])]
    newest_first = None not in times and times[0] > times[1]
    newest = lines[:NEWEST] if newest_first else lines[-NEWEST:]
    earlier = lines[NEWEST:] if newest_first else lines[:-NEWEST]
    return {
        "newest": newest,
        "newest_first": newest_first,
        "earlier": "\n".join(_format_line(line) for line in earlier),
        "earlier_count": len(earlier),
    }


def _format_line(line: Mapping[str, Any]) -> str:
    return " ".join(part for part in (line["at"], line["said_level"], line["text"]) if part)


def _find_text_key(entry: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if isinstance(entry.get(name), str) and entry[name].strip()), None)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
