"""Only a person who opens a page gets its cookies; a picture in the content of a case gets none."""

from typing import Any

import httpx
import pytest

from tests.server.inboxes import person
from tests.server.running import RunningServer

PICTURE = {"Sec-Fetch-Dest": "image", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"}
OLD_PICTURE = {"Accept": "image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5"}
SCRIPT = {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
FRAME = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}
OTHER_SITE = {"Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
SAME_SITE = {**OTHER_SITE, "Sec-Fetch-Site": "same-site"}
OWN_PAGE = {**OTHER_SITE, "Sec-Fetch-Site": "same-origin"}
TYPED = {**OTHER_SITE, "Sec-Fetch-Site": "none"}


def page_path(hitl: dict[str, Any]) -> str:
    return f"/review/{hitl['case_id']}"


def sets_language(response: httpx.Response) -> bool:
    return any("lang=" in cookie for cookie in response.headers.get_list("set-cookie"))


@pytest.fixture
def hitl(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    return server.open(client)


@pytest.mark.parametrize("headers", [PICTURE, OLD_PICTURE, SCRIPT, FRAME, OTHER_SITE, SAME_SITE])
@pytest.mark.parametrize("path", ["/review/x?lang=fr", "/inbox?lang=fr", "/?lang=fr"])
def test_a_picture_path_in_content_sets_no_language(
    server: RunningServer, hitl: dict[str, Any], headers: dict[str, str], path: str
) -> None:
    with server.client() as browser:
        assert not sets_language(browser.get(path, headers=headers))
        assert not sets_language(browser.get(f"{page_path(hitl)}?lang=fr", headers=headers))


@pytest.mark.parametrize("headers", [OWN_PAGE, TYPED, {}])
def test_a_person_who_chooses_a_language_keeps_it(
    server: RunningServer, hitl: dict[str, Any], headers: dict[str, str]
) -> None:
    with server.client(follow_redirects=True) as browser:
        browser.get(hitl["review_url"])
        assert sets_language(browser.get(f"{page_path(hitl)}?lang=fr", headers=headers))
        assert browser.get(page_path(hitl)).headers["content-language"] == "fr"


@pytest.mark.parametrize("headers", [PICTURE, OLD_PICTURE, SCRIPT, FRAME])
def test_a_review_link_as_a_picture_does_not_replace_the_session_from_the_inbox(
    server: RunningServer, hitl: dict[str, Any], headers: dict[str, str]
) -> None:
    with person(server, server.create_key("ada", "inbox:all")) as ada:
        ada.page(hitl["case_id"])
        before = dict(ada.client.cookies)
        answer = ada.client.get(hitl["review_url"], headers=headers, follow_redirects=False)
        assert answer.headers.get_list("set-cookie") == []
        assert dict(ada.client.cookies) == before


def test_a_review_link_from_a_mail_program_opens_the_page(
    server: RunningServer, hitl: dict[str, Any]
) -> None:
    with server.client(follow_redirects=True) as browser:
        assert browser.get(hitl["review_url"], headers=OTHER_SITE).status_code == 200
