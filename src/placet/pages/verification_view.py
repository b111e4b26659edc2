"""The data of the pages on which a person proves who they are, and registers a passkey."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from placet.desk.asker import Asker
from placet.pages.language import ENGLISH, Language
from placet.pages.view import Recap


class MethodView(Struct, frozen=True, kw_only=True):
    """One method on the page, by the name of its section, and what it shows."""

    name: str
    kind: str
    shown: Mapping[str, Any] = {}


class VerificationView(Struct, frozen=True, kw_only=True):
    """The page that asks for the proofs of one answer."""

    asker: Asker
    type: str
    prompt: str
    action: str
    label: str | None
    recap: Recap
    alternatives: tuple[tuple[MethodView, ...], ...]
    """The methods of each branch of the policy that the person can still complete."""
    given: int
    """How many proofs were given already."""
    is_proved: bool
    ends_at: datetime
    now: datetime
    csrf: str
    verify_url: str
    back_url: str
    static_url: str
    problem: str | None = None
    language: Language = ENGLISH
    page_url: str | None = None


class NewPasskeyView(Struct, frozen=True, kw_only=True):
    """The page on which a person with an invitation creates a passkey; `is_done` once they did."""

    service: str
    person: str
    token: str
    options: str
    register_url: str
    static_url: str
    problem: str | None = None
    is_done: bool = False
    is_synced: bool = False
    language: Language = ENGLISH
    page_url: str | None = None
