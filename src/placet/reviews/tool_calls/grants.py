"""What a person may allow in advance beside an answer; whoever keeps grants asks for them and judges them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from placet.errors import InvalidSubmission
from placet.reviews.tool_calls.asked import Group

FIELD = "grants"


class Grants(Protocol):
    """Asks for grants on the page and judges those of an answer, wherever it comes from."""

    def offered(self, group: Group, typed: Mapping[str, str]) -> dict[str, Any] | None:
        """What `tool_call_grant.html` shows as `grant` beside a call, with what was typed; None: nothing."""
        ...

    def read(
        self, group: Group, typed: Mapping[str, str], decision: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The grant that was typed beside a decided call: boxes named `grant.NUMBER.WORD`, by their WORD."""
        ...

    def check(
        self, calls: Sequence[Mapping[str, Any]], decisions: Mapping[str, Mapping[str, Any]], given: object
    ) -> list[dict[str, Any]]:
        """The grants as they will be kept; raises a BadRequest that names what does not fit."""
        ...

    def told(self, call: str, grant: Mapping[str, Any]) -> tuple[str, Any]:
        """A kept grant of this call for a person to read: its name and what it allows."""
        ...


class NoGrants:
    """Nobody here keeps grants, so none is offered and none is taken."""

    def offered(self, group: Group, typed: Mapping[str, str]) -> dict[str, Any] | None:
        """Nothing."""
        return None

    def read(
        self, group: Group, typed: Mapping[str, str], decision: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """None."""
        return None

    def check(
        self, calls: Sequence[Mapping[str, Any]], decisions: Mapping[str, Mapping[str, Any]], given: object
    ) -> list[dict[str, Any]]:
        """None is fine, any is refused."""
        if given is None or given == []:
            return []
        complaint = "Nothing can be allowed in advance here; send the decisions alone."
        raise InvalidSubmission(complaint, fields={FIELD: complaint})

    def told(self, call: str, grant: Mapping[str, Any]) -> tuple[str, Any]:
        """As it was sent; there is none."""
        return call, grant
