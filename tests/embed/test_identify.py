"""An app that knows its people can say who answered; nobody else can."""

from pathlib import Path
from typing import Any, cast

import pytest
from starlette.requests import Request

from placet import Placet, RespondedBy
from tests.embed.hosting import hosting
from tests.server.running import ReviewPage

DRAFT = {"type": "approval", "prompt": "Publish it?", "context": {"artifact": "Hello"}}


def known(request: Request) -> RespondedBy | None:
    name = request.headers.get("x-person")
    return RespondedBy(name=name, email=f"{name.lower()}@example.com") if name else None


async def known_later(request: Request) -> RespondedBy | None:
    return known(request)


@pytest.mark.parametrize("identify", [known, known_later])
def test_a_person_whom_the_app_knows_is_named_in_the_answer(tmp_path: Path, identify) -> None:
    def app(url: str) -> Placet:
        return Placet(
            base_url=url,
            db=str(tmp_path / "cases.db"),
            authenticate=lambda request: request.headers.get("x-user"),
            identify=identify,
        )

    with hosting(app) as hosted, hosted.caller("agent") as agent:
        for person, expected in (("Ada", {"name": "Ada", "email": "ada@example.com"}), (None, None)):
            hitl = agent.post("/v1/cases", json=DRAFT).json()["hitl"]
            link = hitl["review_url"].replace("?token", "/respond?token")
            headers = {"X-Person": person} if person else {}
            assert agent.post(link, json={"action": "approve"}, headers=headers).status_code == 200
            assert agent.get(hitl["poll_url"]).json().get("responded_by") == expected


@pytest.mark.parametrize(
    "returned",
    ["Ada", {"name": "Ada"}, RespondedBy(**cast(Any, {"name": 7})), RespondedBy(name="Ada\x1b")],
    ids=repr,
)
def test_an_answer_is_not_recorded_with_what_names_nobody(tmp_path: Path, returned: Any) -> None:
    def app(url: str) -> Placet:
        return Placet(
            base_url=url,
            db=str(tmp_path / "cases.db"),
            authenticate=lambda request: "agent",
            identify=lambda request: returned,
        )

    with hosting(app) as hosted, hosted.caller() as agent:
        hitl = agent.post("/v1/cases", json=DRAFT).json()["hitl"]
        link = hitl["review_url"].replace("?token", "/respond?token")
        assert agent.post(link, json={"action": "approve"}).status_code == 500
        found = agent.get(hitl["poll_url"])
        assert (found.status_code, found.json()["status"]) == (200, "pending")


def test_a_form_on_another_site_answers_in_nobodys_name(tmp_path: Path) -> None:
    def app(url: str) -> Placet:
        return Placet(
            base_url=url,
            db=str(tmp_path / "cases.db"),
            authenticate=lambda request: request.headers.get("x-user"),
            identify=lambda request: RespondedBy(name=request.cookies["person"]),
        )

    with hosting(app) as hosted, hosted.caller("agent") as agent:
        hitl = agent.post("/v1/cases", json=DRAFT).json()["hitl"]
        link = hitl["review_url"].replace("?token", "/respond?token")
        # What a browser makes of <form enctype="text/plain">, with the cookie that it holds for the app.
        headers = {"content-type": "text/plain", "cookie": "person=Ada"}
        agent.post(link, content='{"action": "approve", "data": {"feedback": "="}}', headers=headers)
        assert "responded_by" not in agent.get(hitl["poll_url"]).json()


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_form_on_another_site_answers_nothing_even_with_the_token_of_the_page(
    tmp_path: Path, site: str
) -> None:
    def app(url: str) -> Placet:
        return Placet(base_url=url, db=str(tmp_path / "cases.db"), authenticate=lambda _: "agent")

    with hosting(app) as hosted, hosted.caller(follow_redirects=True) as browser:
        hitl = browser.post("/v1/cases", json=DRAFT).json()["hitl"]
        page = ReviewPage(browser, browser.get(hitl["review_url"]))
        browser.headers["sec-fetch-site"] = site
        for verb in ("respond", "hand-back", "pass-on", "draft", "opened", "language"):
            assert page.post(verb, {"action": "approve"}).response.status_code == 401
        assert browser.get(hitl["poll_url"]).json()["status"] == "pending"
        browser.headers["sec-fetch-site"] = "same-origin"
        page.post("respond", {"action": "approve"})
        assert browser.get(hitl["poll_url"]).json()["status"] == "completed"
