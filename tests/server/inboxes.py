"""A person at the inbox, with a browser that has no JavaScript."""

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.server.running import ReviewPage, RunningServer

INBOX = "/inbox"


class InboxPerson:
    """Somebody with a browser, signed in or not."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def sign_in(self, key: str) -> httpx.Response:
        """What showing a key leads to."""
        return self.client.post(f"{INBOX}/sign-in", data={"key": key})

    def get_list(self, **query: str) -> str:
        """The list as it is now."""
        return self.client.get(INBOX, params=query).text

    def list_cases(self, **query: str) -> list[str]:
        """The ids of the cases on one page."""
        return list_case_ids(self.get_list(**query))

    def csrf(self) -> str:
        """The token in the page's forms."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.get_list())
        return found[1] if found else ""

    def open(self, case_id: str, **fields: str) -> httpx.Response:
        """Press a case's button."""
        return self.client.post(f"{INBOX}/open", data={"csrf": self.csrf(), "case": case_id, **fields})

    def page(self, case_id: str) -> ReviewPage:
        """The review page behind a case's button."""
        response = self.open(case_id)
        assert response.status_code == 200, response.text
        return ReviewPage(self.client, response)

    @property
    def signed_in(self) -> bool:
        """Whether the inbox knows who this is."""
        return "sign-out" in self.get_list()


@contextmanager
def person(server: RunningServer, key: str | None = None) -> Iterator[InboxPerson]:
    """Somebody at the server's inbox, signed in with this key."""
    with server.client(follow_redirects=True) as client:
        somebody = InboxPerson(client)
        if key is not None:
            response = somebody.sign_in(key)
            assert response.status_code == 200, response.text
        yield somebody


def list_case_ids(text: str) -> list[str]:
    """The ids of the cases that a page lists, in order."""
    return re.findall(r'name="case" value="([^"]+)"', text)


def find_link(text: str, name: str) -> str | None:
    """Where a link of this name leads."""
    found = re.search(rf'href="([^"]+)">(?:<svg.*?</svg>)?{re.escape(name)}<', text)
    return html.unescape(found[1]) if found else None


def get_last_event(server: RunningServer, case_id: str) -> Any:
    """The last event of a case."""
    return server.run(server.parts.store.list_events(case_id))[-1]
