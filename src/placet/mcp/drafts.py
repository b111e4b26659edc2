"""What an assistant said, as the body that opens a case."""

from collections.abc import Iterable
from datetime import datetime
from inspect import Parameter, signature
from typing import Any

from pydantic import BaseModel

from placet.errors import ValidationFailed
from placet.mcp import arguments as say
from placet.protocol.duration import parse_duration


def draft(
    kind: str,
    prompt: str,
    own: dict[str, Any],
    *,
    agent: str | None,
    now: datetime,
    facts: say.Facts = say.NO_FACTS,
    timeout: say.Timeout = "",
    default_action: say.DefaultAction = "",
    remind_after: say.RemindAfter = say.NONE,
    verification: say.Verification = None,
    previous_case_id: say.Previous = "",
) -> dict[str, Any]:
    """The body that opens a case; what was left out is the server's to choose.

    Whatever is named here with a default is an argument of every tool that asks.
    """
    said: dict[str, Any] = {
        "type": kind,
        "prompt": prompt,
        "context": {**facts, **_given(own)},
        "timeout": timeout,
        "default_action": default_action,
        "reminder_at": _moments(remind_after, now),
        "verification_policy": _policy(verification) if verification is not None else None,
        "previous_case_id": previous_case_id,
        "agent": agent,
    }
    return _given(said)


SHARED = tuple(one for one in signature(draft).parameters.values() if one.default is not Parameter.empty)


def approval(text: str, parts: dict[str, Any]) -> dict[str, Any]:
    """What an approval shows; raises ValidationFailed for a thing that is both text and parts."""
    if text and parts:
        raise ValidationFailed("Give what is to be approved as text or as parts, not as both.")
    return {"artifact": text or parts}


def selection(options: list[say.Option], least: int, most: int, recommended: list[str]) -> dict[str, Any]:
    """What a selection shows."""
    return {
        "options": plain(options),
        "min_selections": least,
        "max_selections": max(least, most),
        "recommended": recommended,
    }


def form(fields: list[say.FormField], steps: list[say.FormStep]) -> dict[str, Any]:
    """What an input shows; raises ValidationFailed for a form that is both on one page and on several."""
    if fields and steps:
        raise ValidationFailed("Give the form as fields or as steps, not as both.")
    if steps:
        return {"form": {"steps": [{**_given_in(one), "fields": plain(one.fields)} for one in steps]}}
    return {"form": {"fields": plain(fields)}} if fields else {}


def plain(models: Iterable[BaseModel]) -> list[dict[str, Any]]:
    """What was said of each."""
    return [_given_in(one) for one in models]


def _policy(proof: say.Proof) -> dict[str, Any]:
    """The protocol's words for it; where there is no proof, the person is sent to the page."""
    need = {"proof_type": proof.proof_type, "provider": proof.provider, "min_assurance": proof.min_assurance}
    return {
        "mode": "required",
        "required_for": list(dict.fromkeys(proof.required_for)),
        "requirements": {"any_of": [{"all_of": [_given(need)]}]},
        "binding": {
            "case_id": True,
            "action": True,
            "freshness_seconds": proof.freshness_seconds,
            "single_use": True,
        },
        "fallback": {"on_missing": "browser_review", "on_invalid": "browser_review"},
    }


def _moments(remind_after: list[str], now: datetime) -> list[str]:
    return [(now + parse_duration(one)).isoformat() for one in remind_after]


def _given_in(model: BaseModel) -> dict[str, Any]:
    return _given(model.model_dump(mode="json"))


def _given(said: dict[str, Any]) -> dict[str, Any]:
    """Without what was left out; a zero is something said, and so is False among a form's defaults."""
    return {name: value for name, value in said.items() if value not in ("", None, [], {})}
