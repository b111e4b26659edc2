"""The agent's side of the protocol: follows any service's question to a decision."""

from typing import TYPE_CHECKING, Any

from placet.agent.async_agent import AsyncAgent
from placet.agent.callbacks import Callbacks
from placet.agent.channel_bridge import ChannelBridge
from placet.agent.flow import Notice
from placet.agent.httpx_transport import AsyncFollowingTransport, FollowingTransport
from placet.agent.outcomes import Cancelled, Decided, Expired, Outcome
from placet.agent.pending_case_store import PendingCase, PendingCases
from placet.agent.service_responses import FollowedCase, ServiceSuggestion, read_case, read_suggestions
from placet.agent.sync_agent import Agent

if TYPE_CHECKING:
    from placet.agent.receiver import CallbackReceiver

__all__ = [
    "Agent",
    "AsyncAgent",
    "AsyncFollowingTransport",
    "CallbackReceiver",
    "Callbacks",
    "Cancelled",
    "ChannelBridge",
    "Decided",
    "Expired",
    "FollowedCase",
    "FollowingTransport",
    "Notice",
    "Outcome",
    "PendingCase",
    "PendingCases",
    "ServiceSuggestion",
    "read_case",
    "read_suggestions",
]


def __getattr__(name: str) -> Any:
    """Import the receiver on first use, since it loads a web server that few agents need."""
    if name == "CallbackReceiver":
        from placet.agent.receiver import CallbackReceiver

        return CallbackReceiver
    raise AttributeError(name)
