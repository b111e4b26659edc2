"""The harness that a channel's tests provide for its contract suite.

The harness runs the platform as a real server on the loopback address, with the platform's documented HTTP
interface. It reports what people see there, and presses buttons.
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
    """A message as people see it now: its text without markup, its buttons and its links."""

    text: str
    references: tuple[str, ...] = ()
    """The references of the native buttons, in their order."""
    labels: tuple[str, ...] = ()
    """The labels of the native buttons, in the same order."""
    links: tuple[str, ...] = ()
    """The targets of link buttons, labelled links and the line with the review link."""
    problems: tuple[str, ...] = ()
    """Violations of the platform's documented limits and formats."""


class ChannelHarness(ABC):
    """A channel with its platform on the loopback address."""

    channel: Channel
    secrets: tuple[str, ...] = ()
    """The channel's credentials, which must not appear in logs, errors or messages."""
    can_edit = True
    """Whether messages can be edited. If not, the channel sends a new message."""

    @abstractmethod
    def list_messages(self) -> Sequence[VisibleMessage]:
        """Return all messages in their current form, oldest first."""

    @abstractmethod
    def refuse_next(self) -> None:
        """Let the platform refuse the next message permanently."""

    @abstractmethod
    def slow_down_next(self) -> None:
        """Let the platform rate-limit the next call once, with a short delay or on the test's clock."""

    @abstractmethod
    def fail_next(self) -> None:
        """Let the platform send an invalid response to the next call."""


class InteractiveHarness(ChannelHarness):
    """A platform with native buttons."""

    via: str
    """The protocol's `submitted_via` of a press on this platform."""

    def get_user_id(self, user_id: str) -> str:
        """Return the user id in interactions. Some platforms' ids are unique only with a prefix."""
        return user_id

    @abstractmethod
    def press(self, sent_message: SentMessage, reference: str, *, user_id: str, name: str) -> WebhookRequest:
        """Return a new webhook request for a press, signed as by the platform."""

    @abstractmethod
    def forgeries(self, request: WebhookRequest) -> Sequence[WebhookRequest]:
        """Return forged variants of the request: unsigned, wrongly signed, altered and old."""

    @abstractmethod
    def noise(self) -> Sequence[WebhookRequest]:
        """Return genuine requests that are not presses: handshakes, messages, unknown events."""

    @abstractmethod
    def list_replies(self) -> Sequence[str]:
        """Return the replies to people who pressed a button, in order."""


def sample_card(type: str = "approval", **changes: Any) -> Card:
    """Return a small card of this review type, with a button for each action."""
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
    """Return the closure of a case that Ada approved."""
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
