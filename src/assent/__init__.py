"""Assent's public API: every name here is a promise, and is loaded only when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_EXPORTS: dict[str, str] = {
    "Assent": "assent.embed",
    "AssentClient": "assent.client",
    "AssentError": "assent.errors",
    "CaseDraft": "assent.desk.draft",
    "HitlObject": "assent.protocol.hitl_object",
    "PollResponse": "assent.protocol.poll",
    "Principal": "assent.ports.identity",
    "RequestError": "assent.errors",
    "RespondedBy": "assent.protocol.poll",
    "ReviewDesk": "assent.desk.review_desk",
    "ServerRefused": "assent.client",
    "Settings": "assent.settings",
    "SignatureInvalid": "assent.errors",
    "Status": "assent.protocol.poll",
    "Suggestion": "assent.protocol.improvement",
    "improvement_suggestions": "assent.protocol.improvement",
    "require_choice": "assent.protocol.choice",
    "verify_callback": "assent.protocol.callback",
    "verify_result": "assent.signing.verify",
}
"""Public name -> the module that defines it."""

__all__ = ["__version__", *sorted(_EXPORTS)]  # noqa: PLE0604 - the table holds strings only

# A type checker reads one `from module import Name as Name` for each entry of the table, and nothing that
# would let a misspelt name pass.
if TYPE_CHECKING:
    from assent.client import AssentClient as AssentClient
    from assent.client import ServerRefused as ServerRefused
    from assent.desk.draft import CaseDraft as CaseDraft
    from assent.desk.review_desk import ReviewDesk as ReviewDesk
    from assent.embed import Assent as Assent
    from assent.errors import AssentError as AssentError
    from assent.errors import RequestError as RequestError
    from assent.errors import SignatureInvalid as SignatureInvalid
    from assent.ports.identity import Principal as Principal
    from assent.protocol.callback import verify_callback as verify_callback
    from assent.protocol.choice import require_choice as require_choice
    from assent.protocol.hitl_object import HitlObject as HitlObject
    from assent.protocol.improvement import Suggestion as Suggestion
    from assent.protocol.improvement import improvement_suggestions as improvement_suggestions
    from assent.protocol.poll import PollResponse as PollResponse
    from assent.protocol.poll import RespondedBy as RespondedBy
    from assent.protocol.poll import Status as Status
    from assent.settings import Settings as Settings
    from assent.signing.verify import verify_result as verify_result
else:

    def __getattr__(name: str) -> object:
        """Load a public name on first use: an agent never pays for the server, nor a server for the agent."""
        if name not in _EXPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
