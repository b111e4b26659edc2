"""The agent's side of the protocol: follows any service's question to a decision."""

from typing import TYPE_CHECKING

from placet.agent.async_agent import AsyncAgent
from placet.agent.callbacks import Callbacks
from placet.agent.channel_bridge import ChannelBridge
from placet.agent.flow import Notice
from placet.agent.httpx_transport import AsyncFollowingTransport, FollowingTransport
from placet.agent.outcomes import Cancelled, Decided, Expired, Outcome
from placet.agent.pending_case_store import PendingCase, PendingCases
from placet.agent.service_responses import FollowedCase, ServiceSuggestion, read_case, read_suggestions
from placet.agent.sync_agent import Agent
from placet.lazy_exports import load_on_first_use

if TYPE_CHECKING:
    from placet.agent.receiver import CallbackReceiver
    from placet.agent.request_signing import RequestSigner

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
    "RequestSigner",
    "ServiceSuggestion",
    "read_case",
    "read_suggestions",
]


__getattr__ = load_on_first_use(
    __name__,
    {
        # It loads a web server that few agents need.
        "CallbackReceiver": "placet.agent.receiver",
        "RequestSigner": "placet.agent.request_signing",
    },
)
