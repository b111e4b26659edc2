"""What a channel's tests provide for its contract: its platform, and what people see and press there.

The platform is a real server on the loopback address that speaks the platform's documented HTTP.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from placet.ports.channel import Button, Card, CaseClosure, Channel, SentMessage, WebhookRequest
from placet.testing.clock import DAYBREAK

REVIEW_TOKEN = "r3view-t0ken-that-only-the-link-carries-0001"  # noqa: S105 - it opens nothing
REVIEW_URL = f"https://acme.example/review/review_1?token={REVIEW_TOKEN}"
ACTIONS = {
    "approval": ("approve", "reject"),
    "selection": ("select",),
    "input": ("submit",),
    "confirmation": ("confirm", "cancel"),
    "escalation": ("retry", "skip", "abort"),
    "x-vote": ("yes", "no", "abstain"),
}
MARKUP = (
    "<b>bold</b> <a href='https://evil.example'>here</a> *bold* _it_ ~x~ `code` ||spoiler|| # Big > quote "
    "[here](https://evil.example) <https://evil.example|here> <!channel> @everyone <@123> &amp; {{x}} \\*"
)
HIDDEN = "pay\u202eEVIL\u202c \u200b\x00\x1b[2J \ud83d end"
HOSTILE: dict[str, dict[str, Any]] = {
    "markup": {"prompt": MARKUP, "message": MARKUP[::-1], "source": MARKUP, "facts": ((MARKUP, MARKUP),) * 3},
    "hidden characters": {
        "prompt": HIDDEN,
        "message": HIDDEN,
        "source": HIDDEN,
        "facts": ((HIDDEN, HIDDEN),),
    },
    "long": {"prompt": "long " * 20_000, "message": "word" * 20_000, "source": "s" * 5_000},
    "long markup": {
        "prompt": "*<&_`" * 20_000,
        "message": "[|>" * 20_000,
        "facts": (("<", "&" * 9_000),) * 99,
    },
    "emoji": {"prompt": "👩‍💻" * 5_000, "message": "🇨🇭❤️" * 5_000, "source": "🤖" * 900},
    "empty lines": {"prompt": "a" + "\n" * 9_000 + "b", "message": "\n\n", "facts": (("", ""), ("\n", "\n"))},
    "nothing": {"prompt": "", "message": "", "source": "", "default_action": ""},
    "unknown words": {"type": "x-" + "y" * 300, "default_action": "x-" + "z" * 300},
    "labels": {
        "buttons": tuple(
            Button(action=action, label=label, reference=f"ref{number:029}")
            for number, (action, label) in enumerate(
                [
                    ("approve", "Yes " * 99),
                    ("reject", MARKUP),
                    ("x-a", HIDDEN),
                    ("x-b", "\n"),
                    ("x-c" * 99, ""),
                ]
            )
        )
    },
    "many buttons": {
        "type": "x-vote",
        "buttons": tuple(
            Button(action=f"x-{n}", label=f"Choice {n}", reference=f"many{n}") for n in range(200)
        ),
    },
}


class VisibleMessage(Struct, frozen=True, kw_only=True):
    """A message as people see it now: its markup read, its buttons and links taken out."""

    text: str
    references: tuple[str, ...] = ()
    """What the native buttons carry, in their order."""
    labels: tuple[str, ...] = ()
    """What the native buttons say, in the same order."""
    links: tuple[str, ...] = ()
    """Where link buttons, labelled links and our own line with the link lead."""
    problems: tuple[str, ...] = ()
    """What breaks a documented limit or shape, as independent models and tables see it."""


class ChannelHarness(ABC):
    """A channel and its platform, played on the loopback address."""

    channel: Channel
    secrets: tuple[str, ...] = ()
    """The channel's credentials: they reach no log, no error and no message."""
    can_edit = True
    """Whether a message can be changed later; where not, a new one follows."""

    @abstractmethod
    def list_messages(self) -> Sequence[VisibleMessage]:
        """Every message, oldest first, as it is now."""

    @abstractmethod
    def refuse_next(self) -> None:
        """The platform refuses the next message for good."""

    @abstractmethod
    def slow_down_next(self) -> None:
        """The platform asks to come back later, once; the time is short or the clock is the test's."""

    @abstractmethod
    def fail_next(self) -> None:
        """The platform gives no proper answer to the next call."""


class InteractiveHarness(ChannelHarness):
    """A platform with native buttons."""

    via: str
    """What the protocol calls a press on this platform."""

    def get_user_id(self, user_id: str) -> str:
        """The id under which a press by this person comes; some platforms' ids need more to be unique."""
        return user_id

    @abstractmethod
    def press(self, sent_message: SentMessage, reference: str, *, user_id: str, name: str) -> WebhookRequest:
        """The webhook call for a press, as the platform makes and signs it; a new one each time."""

    @abstractmethod
    def forgeries(self, request: WebhookRequest) -> Sequence[WebhookRequest]:
        """The same call by someone who is not the platform: unsigned, wrongly signed, altered, old."""

    @abstractmethod
    def noise(self) -> Sequence[WebhookRequest]:
        """Genuine calls that are no press: handshakes, messages, things of a later version."""

    @abstractmethod
    def list_replies(self) -> Sequence[str]:
        """What was told to whoever pressed, in order."""


def sample_card(type: str = "approval", **changes: Any) -> Card:
    """A small question of this type, with the buttons its actions would have."""
    buttons = tuple(
        Button(action=action, label=action.capitalize(), reference=f"h1.{type[:4]}{action}")
        for action in ACTIONS.get(type, ())
    )
    fields: dict[str, Any] = {
        "prompt": "Send the newsletter to 1,200 readers?",
        "message": "The spring issue is ready.",
        "type": type,
        "source": "Acme",
        "review_url": REVIEW_URL,
        "expires_at": DAYBREAK + timedelta(hours=4),
        "default_action": "reject",
        "buttons": buttons,
        "facts": (("Subject", "Spring"), ("Readers", "1200")),
    }
    return Card(**fields | changes)


def sample_closure(**changes: Any) -> CaseClosure:
    """Approved by Ada."""
    fields: dict[str, Any] = {"how": "decided", "at": DAYBREAK, "action": "approve", "by": "Ada"}
    return CaseClosure(**fields | changes)


CLOSURES = {
    "Approved by Ada": sample_closure(),
    "Rejected": sample_closure(action="reject", by=None),
    "Expired": sample_closure(how="expired", action=None, by=None),
    "Withdrawn: No longer needed": sample_closure(
        how="withdrawn", action=None, by=None, reason="No longer needed"
    ),
}
