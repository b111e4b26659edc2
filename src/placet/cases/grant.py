"""A grant: what a person allowed in advance, how often and how long. For hooks too: standard library only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from placet.protocol.argument_patterns import fits

MOST_USES = 1_000
LONGEST = timedelta(days=7)
SHORTEST = timedelta(minutes=1)
RETRY_WITHIN = timedelta(minutes=2)
"""So long a counted use holds when it is asked for once more. After that its key covers nothing: whoever uses
the keys of its calls again would otherwise run as often as it likes."""

GrantState = Literal["live", "used_up", "expired", "revoked", "erased"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """Calls of one tool by one agent whose arguments all fit: `uses` times, until `expires_at`."""

    id: str
    owner: str
    """The principal that opened the case: nobody else's calls are covered."""
    tool: str
    agent: str | None
    patterns: Mapping[str, Mapping[str, Any]] | None
    """Argument -> pattern; None once the content of the case was erased, which ends the grant."""
    uses: int
    used: int = 0
    granted_at: datetime
    expires_at: datetime
    granted_by: str
    """The person, as far as the server knows them; otherwise the link that was used."""
    case_id: str
    call_id: str
    """The call that the person had before them."""
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    @property
    def uses_left(self) -> int:
        """How many calls are still covered."""
        return max(0, self.uses - self.used)

    def state(self, now: datetime) -> GrantState:
        """Whether the grant covers anything, and if not, why."""
        if self.revoked_at is not None:
            return "revoked"
        if self.uses_left == 0:
            return "used_up"
        if now >= self.expires_at:
            return "expired"
        return "live" if self.patterns is not None else "erased"

    def holds_again(self, used_at: datetime, now: datetime) -> bool:
        """Whether a use that was counted then still holds when it is asked for once more."""
        return self.holds(now) and now < used_at + RETRY_WITHIN

    def holds(self, now: datetime) -> bool:
        """Whether calls whose use was counted may still run: it has not ended, though it may be used up."""
        return self.revoked_at is None and now < self.expires_at and self.patterns is not None

    def covers(self, tool: str, arguments: Mapping[str, Any], *, agent: str | None, now: datetime) -> bool:
        """Whether this very call is allowed: same tool, same agent, every argument named and fitting."""
        return (
            self.state(now) == "live"
            and self.tool == tool
            and self.agent == agent
            and self.patterns is not None
            and call_fits(self.patterns, arguments)
        )

    def spend(self) -> "Grant":
        """The grant with one use less."""
        return replace(self, used=self.used + 1)

    def revoke(self, *, by: str, now: datetime) -> "Grant":
        """The grant ended; the first revocation stands."""
        return self if self.revoked_at is not None else replace(self, revoked_at=now, revoked_by=by)


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantUse:
    """A call that a grant covered, under the key that its caller chose: asked again, it counts no more."""

    owner: str
    key: str
    grant_id: str
    call_digest: str
    used_at: datetime
    expires_at: datetime
    """When the grant ends; nobody needs to know the key after that."""


def grant_agent_name(agent: Any, path: Iterable[str] = ()) -> str | None:
    """The name that a grant knows an agent by: an agent inside others is another one than by itself."""
    return ">".join([agent, *path]) if isinstance(agent, str) and agent else None


def call_fits(patterns: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any]) -> bool:
    """Whether the call has exactly the arguments that are named, and each fits."""
    return patterns.keys() == arguments.keys() and all(
        fits(pattern, arguments[name]) for name, pattern in patterns.items()
    )


def find_covering_grant(
    grants: Iterable[Grant], tool: str, arguments: Mapping[str, Any], *, agent: str | None, now: datetime
) -> Grant | None:
    """The grant to spend on this call, the one that ends first; None if nobody allowed it."""
    found = [grant for grant in grants if grant.covers(tool, arguments, agent=agent, now=now)]
    return min(found, key=lambda grant: (grant.expires_at, grant.uses_left, grant.id), default=None)
