"""Edit cycle: a person asks for changes, the agent makes them and asks again, and that draft is published.

python -m examples.flow_edit_cycle
"""

import json
from datetime import timedelta
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException, Request

from examples.play.person import Fields, Person
from examples.play.transcript import say
from examples.stage import PATIENCE_S, find_free_port, serve_app
from placet import Placet
from placet.agent import Agent, Decided, Notice

PORT = find_free_port()
URL = f"http://127.0.0.1:{PORT}"
DRAFTS: dict[str, dict[str, str]] = {}
PUBLISHED: list[dict[str, str]] = []

# The service: a blog whose posts are read by a person first, in as many rounds as it takes.
placet = Placet(
    base_url=f"{URL}/placet",
    db=":memory:",
    service_name="Company Blog",
    authenticate=lambda request: request.headers.get("x-agent"),
)
app = FastAPI(lifespan=placet.lifespan, exception_handlers=placet.exception_handlers)
app.mount("/placet", placet)


@app.post("/posts")
async def submit(request: Request, post: dict[str, str], previous_case_id: str | None = None) -> Any:
    """A draft, or the next draft of one that came back with changes."""
    asked = await placet.approval(
        "May this post be published?", artifact=post, previous_case_id=previous_case_id, request=request
    )
    DRAFTS[json.loads(bytes(asked.body))["hitl"]["case_id"]] = post
    return asked


@app.post("/posts/{case_id}/publish")
async def publish(request: Request, case_id: str) -> dict[str, str]:
    """The very draft that was approved."""
    found = await placet.status(case_id, request=request)
    if found.result is None or found.result.action != "approve":
        raise HTTPException(409, "Nobody has approved this draft.")
    PUBLISHED.append(DRAFTS[case_id])
    return DRAFTS[case_id]


# The person: a better title and a request in the first round, a yes in the second.
ANSWERS: dict[int, tuple[str, Fields]] = {
    1: ("edit", {"edit.title": "What a thousand small services taught us", "feedback": "Add a conclusion."}),
    2: ("approve", {"feedback": "Perfect. Publish it."}),
}
FIRST = {"title": "Scaling services", "body": "We began with one service. Now there are many."}
CONCLUSION = " Begin with one."


def main() -> None:
    """The agent: writes, revises and publishes, and takes changes for what they are: no approval."""
    ada = Person("Ada")

    def tell(notice: Notice) -> None:
        if notice.name == "requested":
            case = notice.case
            title = case.context["artifact"]["title"]
            say("agent", f"tells Ada, round {notice.round}: {case.prompt} “{title}”")
            assert http.post(f"/posts/{case.case_id}/publish").status_code == 409, "nobody has answered yet"
            ada.opens(case.review_url, *ANSWERS[notice.round])

    http = httpx.Client(base_url=URL, headers={"X-Agent": "writer"})
    agent = Agent(tell=tell, http=http, max_wait=timedelta(seconds=PATIENCE_S))
    with serve_app(app, PORT), http, ada:
        changes = agent.request("POST", "/posts", json=FIRST)
        assert isinstance(changes, Decided)
        assert changes.action == "edit"
        assert http.post(f"/posts/{changes.case_id}/publish").status_code == 409
        say("agent", f"is asked for changes: {changes.data['feedback']}")

        second = {**FIRST, **changes.data["edits"], "body": FIRST["body"] + CONCLUSION}
        yes = agent.request("POST", "/posts", json=second, params={"previous_case_id": changes.case_id})
        assert isinstance(yes, Decided)
        assert (yes.action, yes.previous_case_id) == ("approve", changes.case_id)
        assert http.post(f"/posts/{yes.case_id}/publish").json() == second
        say("blog", f"published “{PUBLISHED[0]['title']}”")

        listed = http.get("/placet/v1/reviews", params={"chain": yes.case_id}).json()["cases"]
        rounds = [one["poll"] for one in listed]
        assert [one["case_id"] for one in rounds] == [changes.case_id, yes.case_id]
        assert rounds[0]["next_case_id"] == yes.case_id
        say("blog", f"keeps the chain: {' → '.join(one['result']['action'] for one in rounds)}")
    assert len(PUBLISHED) == 1
    assert "Round 2 of this question" in ada.saw[1], "the page shows what came before"


if __name__ == "__main__":
    main()
