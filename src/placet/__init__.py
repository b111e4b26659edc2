"""Placet's public API. Names are loaded on first use."""

from typing import TYPE_CHECKING

from placet.extras import install_finder
from placet.lazy_exports import load_on_first_use

__version__ = "0.1.0"

_EXPORTS: dict[str, str] = {
    "Placet": "placet.embed",
    "PlacetClient": "placet.client",
    "PlacetError": "placet.errors",
    "CaseDraft": "placet.desk.draft",
    "HitlObject": "placet.protocol.hitl_object",
    "PollResponse": "placet.protocol.poll",
    "Principal": "placet.ports.identity",
    "RequestError": "placet.errors",
    "RespondedBy": "placet.protocol.poll",
    "ReviewDesk": "placet.desk.review_desk",
    "ServerRefused": "placet.errors",
    "Settings": "placet.settings",
    "SignatureInvalid": "placet.errors",
    "Status": "placet.protocol.poll",
    "Suggestion": "placet.protocol.improvement",
    "improvement_suggestions": "placet.protocol.improvement",
    "require_choice": "placet.protocol.choice",
    "verify_callback": "placet.protocol.callback",
    "verify_result": "placet.signing.verify",
}
"""Public name -> the module that defines it."""

install_finder()

__all__ = ["__version__", *sorted(_EXPORTS)]  # noqa: PLE0604 - the table holds strings only

# A type checker reads one `from module import Name as Name` for each entry of the table, and nothing that
# would let a misspelt name pass.
if TYPE_CHECKING:
    from placet.client import PlacetClient as PlacetClient
    from placet.desk.draft import CaseDraft as CaseDraft
    from placet.desk.review_desk import ReviewDesk as ReviewDesk
    from placet.embed import Placet as Placet
    from placet.errors import PlacetError as PlacetError
    from placet.errors import RequestError as RequestError
    from placet.errors import ServerRefused as ServerRefused
    from placet.errors import SignatureInvalid as SignatureInvalid
    from placet.ports.identity import Principal as Principal
    from placet.protocol.callback import verify_callback as verify_callback
    from placet.protocol.choice import require_choice as require_choice
    from placet.protocol.hitl_object import HitlObject as HitlObject
    from placet.protocol.improvement import Suggestion as Suggestion
    from placet.protocol.improvement import improvement_suggestions as improvement_suggestions
    from placet.protocol.poll import PollResponse as PollResponse
    from placet.protocol.poll import RespondedBy as RespondedBy
    from placet.protocol.poll import Status as Status
    from placet.settings import Settings as Settings
    from placet.signing.verify import verify_result as verify_result
else:
    __getattr__ = load_on_first_use(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)
