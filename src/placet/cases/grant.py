"""A grant: calls that a reviewer allowed in advance, how many, and until when.

Hooks import this module, so it uses the standard library only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from placet.protocol.argument_patterns import fits

MAX_USES = 1_000
MAX_DURATION = timedelta(days=7)
MIN_DURATION = timedelta(minutes=1)
RETRY_WITHIN = timedelta(minutes=2)
"""How long a retry under the same key is not counted again. Without this limit, a caller that reuses a key
could run the call any number of times."""

GrantState = Literal["live", "used_up", "expired", "revoked", "erased"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """Allows calls of one tool by one agent with matching arguments: `uses` times, until `expires_at`."""

    id: str
    owner: str
    """The principal that opened the case. Only its calls are covered."""
    tool: str
    agent: str | None
    patterns: Mapping[str, Mapping[str, Any]] | None
    """The pattern of each argument, or None after the case's content was erased, which ends the grant."""
    uses: int
    used: int = 0
    granted_at: datetime
    expires_at: datetime
    granted_by: str
    """The reviewer, if the server knows them; otherwise the link that was used."""
    case_id: str
    call_id: str
    """The call that the reviewer decided."""
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    @property
    def uses_left(self) -> int:
        """The number of calls that are still covered."""
        return max(0, self.uses - self.used)

    def state(self, now: datetime) -> GrantState:
        """Return `live`, or why the grant no longer covers calls."""
        if self.revoked_at is not None:
            return "revoked"
        if self.uses_left == 0:
            return "used_up"
        if now >= self.expires_at:
            return "expired"
        return "live" if self.patterns is not None else "erased"

    def holds_again(self, used_at: datetime, now: datetime) -> bool:
        """Whether a retry of a use that was counted at `used_at` is still covered."""
        return self.holds(now) and now < used_at + RETRY_WITHIN

    def holds(self, now: datetime) -> bool:
        """Whether calls that were already counted may run: the grant has not ended, but it may be used up."""
        return self.revoked_at is None and now < self.expires_at and self.patterns is not None

    def covers(self, tool: str, arguments: Mapping[str, Any], *, agent: str | None, now: datetime) -> bool:
        """Whether this call is covered: same tool, same agent, and every argument matches its pattern."""
        return (
            self.state(now) == "live"
            and self.tool == tool
            and self.agent == agent
            and self.patterns is not None
            and call_fits(self.patterns, arguments)
        )

    def spend(self) -> "Grant":
        """Return the grant with one more use counted."""
        return replace(self, used=self.used + 1)

    def revoke(self, *, by: str, now: datetime) -> "Grant":
        """Return the revoked grant. A second revocation changes nothing."""
        return self if self.revoked_at is not None else replace(self, revoked_at=now, revoked_by=by)


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantUse:
    """A call that a grant covered, under the caller's key. A retry under the same key is not counted."""

    owner: str
    key: str
    grant_id: str
    call_digest: str
    used_at: datetime
    expires_at: datetime
    """When the grant ends; the key is not needed after that."""


def build_grant_agent_name(agent: Any, path: Iterable[str] = ()) -> str | None:
    """Return the name of an agent in a grant; it includes the agents around a nested agent."""
    return ">".join([agent, *path]) if isinstance(agent, str) and agent else None


def call_fits(patterns: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any]) -> bool:
    """Whether the call has exactly the arguments in `patterns`, and each matches."""
    return patterns.keys() == arguments.keys() and all(
        fits(pattern, arguments[name]) for name, pattern in patterns.items()
    )


def find_covering_grant(
    grants: Iterable[Grant], tool: str, arguments: Mapping[str, Any], *, agent: str | None, now: datetime
) -> Grant | None:
    """Return the grant that covers this call and ends first, or None."""
    found = [grant for grant in grants if grant.covers(tool, arguments, agent=agent, now=now)]
    return min(found, key=lambda grant: (grant.expires_at, grant.uses_left, grant.id), default=None)
