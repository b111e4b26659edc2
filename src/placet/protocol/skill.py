"""Render a service's SKILL.md (spec 12): front matter and how to handle a 202."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from placet.errors import ValidationFailed
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.duration import parse_duration
from placet.protocol.review_types import STANDARD_TYPES
from placet.text.characters import is_hidden, replace_surrogates

MAX_INFO_LENGTH = 200
MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 1024


class Skill(Struct, frozen=True, kw_only=True):
    """The content of a SKILL.md: a service and how it uses human decisions."""

    name: str
    description: str
    types: tuple[str, ...]
    info: str
    review_base_url: str | None = None
    timeout_default: str | None = None
    supports_inline_submit: bool = False
    hitl_required: bool = False
    supports_improvement_suggestions: bool = False


def render_front_matter(skill: Skill) -> str:
    """Return the YAML front matter of SKILL.md; raises `ValidationFailed` for invalid values."""
    _check(skill)
    lines = [
        "---",
        f"name: {_quote_yaml(skill.name)}",
        f"description: {_quote_yaml(skill.description)}",
        "metadata:",
        "  hitl:",
        "    supported: true",
        *(f"    {name}: true" for name in _FLAGS if getattr(skill, name)),
        f"    types: [{', '.join(_quote_yaml(name) for name in skill.types)}]",
        *(
            f"    {name}: {_quote_yaml(text)}"
            for name in _TEXTS
            if (text := getattr(skill, name)) is not None
        ),
        "---",
    ]
    return "\n".join(lines) + "\n"


def render_handling_section(skill: Skill) -> str:
    """Return the section of SKILL.md that tells an agent how to handle a 202."""
    inline = (_INLINE,) if skill.supports_inline_submit else ()
    steps = (*_STEPS[:2], *inline, *_STEPS[2:])
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    parts = [f"## HITL Handling\n\n{_HANDLING}\n\n{numbered}"]
    if skill.hitl_required:
        parts.append(f"## Agent Guidelines\n\n{_GUIDELINES}")
    if skill.supports_improvement_suggestions:
        parts.append(f"## Improvement Suggestions\n\n{_IMPROVEMENTS}")
    return "\n\n".join(parts) + "\n"


def render_skill(skill: Skill) -> str:
    """Return the complete SKILL.md."""
    title = f"# {_join_lines(skill.name)}\n\n{_join_lines(skill.description)}"
    return f"{render_front_matter(skill)}\n{title}\n\n{render_handling_section(skill)}"


def _check(skill: Skill) -> None:
    _check_text("name", skill.name, MAX_NAME_LENGTH)
    _check_text("description", skill.description, MAX_DESCRIPTION_LENGTH)
    _check_text("info", skill.info, MAX_INFO_LENGTH)
    _check_types(skill.types)
    if skill.timeout_default is not None:
        parse_duration(skill.timeout_default, "timeout_default")
    if skill.review_base_url is not None and not is_secure_or_loopback(skill.review_base_url):
        raise ValidationFailed(
            "review_base_url must be an https URL, or http on localhost.", path="review_base_url"
        )


def _check_text(name: str, text: str, limit: int) -> None:
    if not (text.strip() and len(text) <= limit and replace_surrogates(text) == text):
        raise ValidationFailed(f"{name} must be 1 to {limit} characters of plain text.", path=name)


def _check_types(types: Sequence[str]) -> None:
    known = all(name in STANDARD_TYPES or (name.startswith("x-") and len(name) > 2) for name in types)
    if not (types and known and len(set(types)) == len(types)):
        raise ValidationFailed(f"types takes {', '.join(STANDARD_TYPES)} or x-..., each once.", path="types")


def _quote_yaml(text: str) -> str:
    """Return a text as a string of YAML, with hidden characters as escapes.

    YAML reads a JSON string as it is meant, except for some of the hidden characters.
    """
    quoted = msgspec.json.encode(text).decode()
    return "".join(f"\\U{ord(one):08x}" if is_hidden(one) else one for one in quoted)


def _join_lines(text: str) -> str:
    return " ".join(text.split())


_FLAGS = ("hitl_required", "supports_inline_submit", "supports_improvement_suggestions")
_TEXTS = ("review_base_url", "timeout_default", "info")

_HANDLING = (
    "This service leaves some decisions to a person. It then answers HTTP 202 with a `hitl` object instead "
    "of a result. Do not decide in the person's place, and do not treat the 202 as a failure."
)
_STEPS = (
    "Take `hitl.prompt` and `hitl.review_url` from the body.",
    "Give both to your user, word for word, and say until when (`hitl.expires_at`) an answer counts. "
    "Never open the link yourself.",
    "Poll `hitl.poll_url` with your own credentials, waiting as long as `Retry-After` says, until `status` "
    "is `completed`, `expired` or `cancelled`.",
    "On `completed`, act on `result.action` and `result.data`, and only on these.",
    "On `expired` or `cancelled`, nothing was approved. Tell your user, and ask before you start again.",
)
_INLINE = (
    "If the body has `hitl.submit_url`, you may show a button for each of `hitl.inline_actions` beside the "
    "link. Send an action to `submit_url` with `submit_token` as bearer token only after your user pressed "
    "its button; keep the token to yourself."
)
_GUIDELINES = """\
Say with every request whether a person should review it. Send exactly one of:

| Parameter | Meaning |
|---|---|
| `prefer_hitl: true` | a person reviews before anything happens (HTTP 202) |
| `skip_hitl: true` | it happens at once, without review (HTTP 201, `hitl_skipped: true`) |

`previous_case_id` continues an earlier review and counts as `prefer_hitl`. Neither flag is answered with 400
`HITL_CHOICE_REQUIRED`, both with 400 `VALIDATION_ERROR`. When in doubt, choose `prefer_hitl`."""
_IMPROVEMENTS = """\
A finished answer may carry `improvement_suggestions`. Give your user the result first. Then you may put the
question of each `agent_action` to your user, most urgent `priority` first, and send the request again with
what you learned: at most twice, and not at all once the list is empty. A suggestion is advice about data,
never a permission to act."""
