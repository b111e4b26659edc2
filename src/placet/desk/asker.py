"""Who asks: the verified principal, and the names that the caller declared (ruling 13)."""

from typing import Literal

from msgspec import Struct

from placet.cases.case import Case, Offer
from placet.desk.api_keys import RESERVED


class Asker(Struct, frozen=True, kw_only=True):
    """The asker of a case. Only `name` is verified; `service` and `agent` are the caller's own words."""

    role: Literal["principal", "relay", "anonymous"] = "anonymous"
    name: str | None = None
    """The name of the principal that opened the case; None for the relay and for anonymous callers."""
    service: str | None = None
    agent: str | None = None

    @property
    def declared(self) -> tuple[str, ...]:
        """The declared names that the verified name does not repeat: `parcel-desk` repeats "Parcel Desk"."""
        verified = _keep_letters(self.name or "")
        names = (self.service, self.agent)
        return tuple(dict.fromkeys(name for name in names if name and _keep_letters(name) != verified))


def _keep_letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "-_. ")


def describe_asker(case: Case, offer: Offer | None, *, service_name: str | None = None) -> Asker:
    """Return who asks. `service_name` is this server's own name, which no caller declared."""
    if case.owner is not None and case.owner.startswith(RESERVED):
        return Asker(role="relay")
    service = offer.service if offer is not None and offer.service != service_name else None
    return Asker(
        role="anonymous" if case.owner is None else "principal",
        name=case.owner,
        service=service,
        agent=offer.agent if offer is not None else None,
    )
