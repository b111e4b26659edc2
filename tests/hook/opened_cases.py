"""Reviews without a server, which record the cases that were opened."""

from typing import Any


class OpenedCases:
    """Reviews that record which cases were opened."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open_case(self, interruption: Any, *, agent: str, attempt: int = 0) -> dict[str, Any]:
        self.opened.append(interruption.id)
        return {"case_id": interruption.id, "review_url": "https://example.com"}

    def poll_case(self, case: Any) -> None:
        return None

    def withdraw(self, case: Any, reason: str) -> None:
        return
