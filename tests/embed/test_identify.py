"""An app that knows its people can say who answered; nobody else can."""

from pathlib import Path

import pytest
from starlette.requests import Request

from assent import Assent, RespondedBy
from tests.embed.hosting import hosting

DRAFT = {"type": "approval", "prompt": "Publish it?", "context": {"artifact": "Hello"}}


def known(request: Request) -> RespondedBy | None:
    name = request.headers.get("x-person")
    return RespondedBy(name=name, email=f"{name.lower()}@example.com") if name else None


async def known_later(request: Request) -> RespondedBy | None:
    return known(request)


@pytest.mark.parametrize("identify", [known, known_later])
def test_whoever_the_app_knows_is_named_in_the_answer(tmp_path: Path, identify) -> None:
    def app(url: str) -> Assent:
        return Assent(
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
