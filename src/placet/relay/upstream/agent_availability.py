"""Notice when an agent answers again after an outage."""

from collections.abc import Callable

from placet.relay.subscriptions import RegisteredAgent

UNAVAILABLE_STATUSES = frozenset({429, 502, 503, 504})
"""The statuses of a gateway in front of an agent that is not available."""


class AgentAvailability:
    """Knows which agents have answered their last call.

    `on_recovery` is called when an agent answers whose last call failed, and when it first answers.
    """

    def __init__(self, on_recovery: Callable[[RegisteredAgent], None]) -> None:
        self._on_recovery = on_recovery
        self._answering: set[tuple[str, str]] = set()

    def note_answer(self, agent: RegisteredAgent, status: int) -> None:
        """Note that an agent, or a gateway in front of it, has answered with this HTTP status."""
        if status in UNAVAILABLE_STATUSES:
            self.note_failure(agent)
        elif agent.key not in self._answering:
            self._answering.add(agent.key)
            self._on_recovery(agent)

    def note_failure(self, agent: RegisteredAgent) -> None:
        """Note that an agent could not be reached."""
        self._answering.discard(agent.key)
