"""Parsing of the arguments of `placet ask` into a draft."""

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from placet.errors import ValidationFailed
from placet.protocol.duration import parse_duration
from placet.protocol.fields import FIELD_TYPES

CHOICE_TYPES = ("select", "multiselect")
_FIELD = re.compile(
    r"(?P<key>[^:?=]+)(?P<optional>\?)?:(?P<type>[a-z][a-z0-9_-]*)(?:=(?P<options>[^:]*))?(?::(?P<label>.*))?",
    re.DOTALL,
)


class QuestionArguments(Struct, frozen=True, kw_only=True):
    """The arguments that questions of all types share."""

    prompt: str
    message: str | None
    context: str | None
    facts: tuple[str, ...]
    timeout: str | None
    default_action: str | None
    remind_after: tuple[str, ...]
    notify: tuple[str, ...]
    labels: tuple[str, ...]
    service: str | None
    agent: str | None
    previous: str | None

    def build_context(self, own: dict[str, Any]) -> dict[str, Any]:
        """Return the context: that of --context, then that of the review type, then the facts."""
        context = read_json_object(self.context, "--context") if self.context is not None else {}
        return {**context, **own, **parse_values(self.facts, "--fact")}

    def build_draft(self, review_type: str, context: dict[str, Any], *, now: datetime) -> dict[str, Any]:
        """Return the body of the request that creates the case."""
        fields = {
            "type": review_type,
            "prompt": self.prompt,
            "message": self.message,
            "context": context,
            "timeout": self.timeout,
            "default_action": self.default_action,
            "reminder_at": [_parse_reminder(one, now) for one in self.remind_after] or None,
            "notify": list(self.notify) or None,
            "labels": list(self.labels) or None,
            "service": self.service,
            "agent": self.agent,
            "previous_case_id": self.previous,
        }
        return {name: value for name, value in fields.items() if value is not None}


def read_text_or_json(value: str, option: str) -> Any:
    """Return the text or the content of @file. JSON objects and lists are decoded."""
    found = read_text(value, option)
    if found.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(found)
        except (msgspec.DecodeError, RecursionError) as error:
            if value.startswith("@") and not value.endswith(".json"):
                return found
            raise click.BadParameter(f"this is not valid JSON ({error}).", param_hint=option) from None
    return found


def read_json_object(value: str, option: str) -> dict[str, Any]:
    """Return the JSON object in the text or in @file."""
    found = read_text_or_json(value, option)
    if not isinstance(found, dict):
        raise click.BadParameter("write a JSON object, or @file with one.", param_hint=option)
    return found


def parse_pairs(values: Iterable[str], option: str) -> dict[str, str]:
    """Parse NAME=TEXT arguments; a name may occur only once."""
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not (equals and name.strip()) or name in found:
            raise click.BadParameter(f"write {option} NAME=TEXT, each name once.", param_hint=option)
        found[name.strip()] = text
    return found


def parse_values(given: Iterable[str], option: str) -> dict[str, Any]:
    """Parse NAME=VALUE arguments. Numbers, true, false and null are decoded; other values are text."""
    return {name: _parse_scalar(text) for name, text in parse_pairs(given, option).items()}


def parse_entries(given: Iterable[str], name: str, option: str) -> list[dict[str, str]]:
    """Parse ID=TITLE arguments, or plain titles. `name` is the key of the title in each entry."""
    entries = []
    for value in given:
        identity, equals, title = value.partition("=")
        entries.append({"id": identity.strip(), name: (title if equals else value).strip()})
    ids = [entry["id"] for entry in entries]
    if len(set(ids)) != len(ids) or not all(ids):
        raise click.BadParameter("write ID=TITLE, each id once.", param_hint=option)
    return entries


def parse_field(value: str) -> dict[str, Any]:
    """Parse KEY:TYPE[=A,B][:LABEL] into a form field. KEY? makes it optional."""
    match = _FIELD.fullmatch(value)
    if match is None or not (match["type"] in FIELD_TYPES or match["type"].startswith("x-")):
        raise click.BadParameter(
            f"write KEY:TYPE or KEY?:TYPE=A,B:LABEL; types are {', '.join(FIELD_TYPES)}.",
            param_hint="--field",
        )
    key = match["key"].strip()
    found: dict[str, Any] = {
        "key": key,
        "label": (match["label"] or key.replace("_", " ").capitalize()).strip(),
        "type": match["type"],
        "required": match["optional"] is None,
    }
    if match["options"] is not None or match["type"] in CHOICE_TYPES:
        found["options"] = _parse_choices(match["options"] or "", match["type"])
    return found


def _parse_choices(text: str, type: str) -> list[dict[str, str]]:
    chosen = [one.strip() for one in text.split(",") if one.strip()]
    if type not in CHOICE_TYPES or not chosen:
        raise click.BadParameter("only select and multiselect take options, as =A,B.", param_hint="--field")
    return [{"value": one, "label": one} for one in chosen]


def _parse_scalar(text: str) -> Any:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return found if found is None or isinstance(found, bool | int | float) else text


def read_text(value: str, option: str) -> str:
    """Return the text, or the content of @file."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise click.BadParameter(f"{value[1:]} cannot be read: {reason}.", param_hint=option) from None


def _parse_reminder(after: str, now: datetime) -> str:
    try:
        return (now + parse_duration(after)).isoformat()
    except (ValidationFailed, OverflowError) as error:
        message = getattr(error, "message", "this is too far in the future.")
        raise click.BadParameter(message, param_hint="--remind-after") from None
