"""The agent's side of the protocol: whoever asks, the person is told, and the decision comes back."""

from typing import TYPE_CHECKING, Any

from assent.agent.callbacks import Callbacks
from assent.agent.dropin import AsyncFollowingTransport, FollowingTransport
from assent.agent.flow import Notice
from assent.agent.following import AsyncAgent
from assent.agent.following_sync import Agent
from assent.agent.outcomes import Cancelled, Decided, Expired, Outcome
from assent.agent.pending import PendingCase, PendingCases
from assent.agent.reading import FollowedCase, Suggestion, read_case, read_suggestions
from assent.agent.switchboard import Switchboard

if TYPE_CHECKING:
    from assent.agent.receiver import CallbackReceiver

__all__ = [
    "Agent",
    "AsyncAgent",
    "AsyncFollowingTransport",
    "CallbackReceiver",
    "Callbacks",
    "Cancelled",
    "Decided",
    "Expired",
    "FollowedCase",
    "FollowingTransport",
    "Notice",
    "Outcome",
    "PendingCase",
    "PendingCases",
    "Suggestion",
    "Switchboard",
    "read_case",
    "read_suggestions",
]


def __getattr__(name: str) -> Any:
    """The receiver brings a web server along, which few agents need."""
    if name == "CallbackReceiver":
        from assent.agent.receiver import CallbackReceiver

        return CallbackReceiver
    raise AttributeError(name)
