"""The agent's side of the protocol: whoever asks, the person is told, and the decision comes back."""

from assent.agent.flow import Notice
from assent.agent.following import AsyncAgent
from assent.agent.following_sync import Agent
from assent.agent.outcomes import Cancelled, Decided, Expired, Outcome
from assent.agent.pending import PendingCase, PendingCases
from assent.agent.reading import FollowedCase, Suggestion, read_case, read_suggestions
from assent.agent.switchboard import Switchboard

__all__ = [
    "Agent",
    "AsyncAgent",
    "Cancelled",
    "Decided",
    "Expired",
    "FollowedCase",
    "Notice",
    "Outcome",
    "PendingCase",
    "PendingCases",
    "Suggestion",
    "Switchboard",
    "read_case",
    "read_suggestions",
]
