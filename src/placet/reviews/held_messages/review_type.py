"""The rules of held messages: the message is forwarded unchanged, or not at all."""

import re
from collections.abc import Mapping
from typing import Any

from placet.cases.case import Offer
from placet.reviews.answer import check_known, drop_empty, read_text
from placet.reviews.form_post import BACK, NEXT, PostResult
from placet.reviews.held_messages.declaration import HELD_MESSAGES
from placet.reviews.held_messages.message_context import (
    FIELD,
    HeldFile,
    HeldMessageContext,
    HeldMessagePage,
    TextSlice,
    build_note,
    read_held_message,
    split_at_marks,
    split_into_pages,
)
from placet.reviews.page_form import Pairs, get_last_value
from placet.reviews.review_type import ReviewType, omit_from_context

PAGE_LENGTH = 20_000
"""How many characters of a message one page shows."""
MASK = "MASK"
MAX_NAME_LENGTH = 100
_UNSAFE_IN_NAMES = re.compile(r"[^\w .()-]|^\.|\.\.")


class HeldMessages(ReviewType):
    """An approval whose context holds a message that a relay holds."""

    takes_result_schema = False
    declaration = HELD_MESSAGES

    def recognises(self, context: Mapping[str, Any]) -> bool:
        """Whether the context has a held message, valid or not."""
        return FIELD in context

    def read_context(self, context: Mapping[str, Any]) -> HeldMessageContext:
        """Return the held message; raise ValidationFailed if it is not valid."""
        return read_held_message(context)

    def is_high_risk(self, offer: Offer) -> bool:
        """Return true: a held message leaves for another agent."""
        return True

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reviewer's message: the answer if the agent asked for input, else a note."""
        check_known(data, ("message",))
        return drop_empty(message=read_text(data, "message"))

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message in pages, with its texts split at the findings."""
        held = read_held_message(offer.context)
        return {
            "held": held,
            "pages": [_build_page_view(one, held) for one in split_into_pages(held, PAGE_LENGTH)],
            "has_paths": len(held.texts) > 1,
            "is_masked": any(
                mark.action == MASK for text in held.texts for one in text.excerpts for mark in one.marks
            ),
            "named_files": [one for one in held.files if isinstance(one, str)],
            "asks": held.matter == "input",
            "facts": omit_from_context(offer.context, FIELD),
        }

    def build_decided_content(self, offer: Offer) -> dict[str, Any]:
        """Return what the page showed."""
        return self.build_page_content(offer, {})

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return the reviewer's message."""
        said = get_last_value(pairs, "message")
        return drop_empty(message=said if said and said.strip() else None)

    def build_list_note(self, offer: Offer) -> tuple[str, ...]:
        """Return the policy, what it found, and a masked excerpt."""
        return build_note(read_held_message(offer.context))

    def find_step(self, offer: Offer, values: Mapping[str, Any], step: int) -> int | None:
        """Return the page of the message to show, or None if all of it is on one page."""
        last = len(split_into_pages(read_held_message(offer.context), PAGE_LENGTH)) - 1
        return min(step, last) if last else None

    def handle_post(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Turn to another page of the message, or answer."""
        values = self.form_data(offer, pairs)
        if move not in (NEXT, BACK):
            return PostResult(values=values, ready=True)
        typed = get_last_value(pairs, "step") or ""
        step = int(typed) if typed.isascii() and typed.isdecimal() and len(typed) < 4 else 0
        step = max(step + (1 if move == NEXT else -1), 0)
        return PostResult(values=values, ready=False, step=self.find_step(offer, values, step) or 0)

    def find_outcome(self, offer: Offer, action: str) -> str:
        """Return `submit` if the reviewer answered an agent that asked for input, else the action."""
        asked = read_held_message(offer.context).matter == "input"
        return "submit" if asked and action == "approve" else action

    def extract_comparable(self, offer: Offer) -> dict[str, Any]:
        """Return the texts by path."""
        return {
            text.path: "\n…\n".join(one.text for one in text.excerpts)
            for text in read_held_message(offer.context).texts
        }


def _build_page_view(page: HeldMessagePage, held: HeldMessageContext) -> dict[str, Any]:
    return {
        "texts": [_build_text_view(part, held) for part in page.texts],
        "data": page.data,
        "files": [_build_file_view(file) for file in page.files if isinstance(file, HeldFile)],
    }


def _build_text_view(part: TextSlice, held: HeldMessageContext) -> dict[str, Any]:
    text, excerpt = part.text, part.excerpt
    end = excerpt.at + len(excerpt.text)
    last = text.excerpts[-1]
    return {
        "path": text.path,
        "segments": split_at_marks(excerpt, held.policy),
        "first": excerpt.at == 0,
        "last": end >= text.length,
        "left_out": text.left_out if end == last.at + len(last.text) else 0,
    }


def _build_file_view(file: HeldFile) -> dict[str, Any]:
    content = file.content
    return {
        "file": file,
        "name": file.name or file.path,
        "download": None if content is None else f"data:application/octet-stream;base64,{content}",
        "download_name": _UNSAFE_IN_NAMES.sub("_", file.name or "file")[-MAX_NAME_LENGTH:],
        "picture": None if content is None else f"data:{file.type};base64,{content}",
    }


REVIEW_TYPE = HeldMessages
