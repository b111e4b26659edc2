"""The public URLs of a case."""

from placet.cases.wire import CaseLinks
from placet.http.client_operations import FOLLOW_CASE, POLL_CASE, RESPOND
from placet.protocol.service_paths import JWKS, REVIEW_PAGES

CASE_ID = "{case_id}"  # the variable of the paths


class CaseUrls:
    """Builds URLs under one public base URL."""

    def __init__(self, base_url: str) -> None:
        self.base = base_url.rstrip("/")
        self.jwks = f"{self.base}{JWKS}"
        self._pages = f"{self.base}{REVIEW_PAGES}/"
        self._poll = f"{self.base}{POLL_CASE.path}"
        self._events = f"{self.base}{FOLLOW_CASE.path}"
        self._submit = f"{self.base}{RESPOND.path}"

    def build_page_url(self, case_id: str) -> str:
        """Return the URL of the review page, without a token."""
        return f"{self._pages}{case_id}"

    def build_review_url(self, case_id: str, token: str) -> str:
        """Return the review link, which contains its token."""
        return f"{self._pages}{case_id}?token={token}"

    def build_links(self, case_id: str, *, review_token: str, submit_token: str | None) -> CaseLinks:
        """Return all URLs of a new case."""
        return CaseLinks(
            review_url=self.build_review_url(case_id, review_token),
            poll_url=self._poll.replace(CASE_ID, case_id),
            events_url=self._events.replace(CASE_ID, case_id),
            submit_url=self._submit.replace(CASE_ID, case_id) if submit_token else None,
            submit_token=submit_token,
        )
