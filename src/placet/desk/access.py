"""Access checks: who may see a case, and who may answer it. Each kind of token serves one purpose only."""

from placet.cases.case import Case
from placet.cases.tokens import find_matching_digest
from placet.errors import CaseNotFound, InvalidToken, NotPermitted
from placet.ports.identity import Principal


def get_actor(principal: Principal) -> str:
    """Return the name of this principal in the event log."""
    return f"key:{principal.name}" if principal.name else "anonymous"


def require_scope(principal: Principal, scope: str) -> None:
    """Raise NotPermitted unless the principal has the scope."""
    if scope not in principal.scopes and "admin" not in principal.scopes:
        raise NotPermitted(f"This key lacks the scope {scope}.")


def require_owner(case: Case | None, principal: Principal) -> Case:
    """Return the case if this principal opened it; anyone else gets CaseNotFound (ruling 10)."""
    if case is None or case.erased_at is not None:
        raise CaseNotFound()
    if case.owner is not None and case.owner != principal.name:
        if principal.name is None:
            raise InvalidToken("Send the credential of the principal that opened this case.")
        raise CaseNotFound()
    return case


def require_reader(case: Case | None, principal: Principal) -> Case:
    """Return the case if this principal opened it, or if the case names this principal as its reader."""
    named = case.reader.principal if case is not None and case.reader is not None else None
    if case is not None and named is not None and named == principal.name:
        return case
    return require_owner(case, principal)


def require_review_token(case: Case | None, token: str) -> str:
    """Return the digest of the review link that this token belongs to. Raises InvalidToken."""
    digest = find_matching_digest(token, case.review_digests) if case else None
    if digest is None:
        raise InvalidToken("This review link is not valid.")
    return digest


def require_submit_token(case: Case, token: str | None) -> None:
    """Raise InvalidToken unless this is the token for answering this case inline."""
    if token is None or case.submit_digest is None or not find_matching_digest(token, (case.submit_digest,)):
        raise InvalidToken("Send the case's submit_token as a Bearer token.")
