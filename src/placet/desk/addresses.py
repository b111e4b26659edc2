"""The public URLs of a case."""

from placet.cases.wire import CaseLinks


class Addresses:
    """Builds URLs under one public base URL."""

    def __init__(self, base_url: str) -> None:
        self.base = base_url.rstrip("/")
        self.jwks = f"{self.base}/.well-known/jwks.json"
        self._reviews = f"{self.base}/v1/reviews/"
        self._pages = f"{self.base}/review/"

    def page(self, case_id: str) -> str:
        """Return the URL of the review page, without a token."""
        return f"{self._pages}{case_id}"

    def review(self, case_id: str, token: str) -> str:
        """Return the review link, which contains its token."""
        return f"{self._pages}{case_id}?token={token}"

    def links(self, case_id: str, *, review_token: str, submit_token: str | None) -> CaseLinks:
        """Return all URLs of a new case."""
        reviews = self._reviews + case_id
        return CaseLinks(
            review_url=self.review(case_id, review_token),
            poll_url=f"{reviews}/status",
            events_url=f"{reviews}/events",
            submit_url=f"{reviews}/respond" if submit_token else None,
            submit_token=submit_token,
        )
