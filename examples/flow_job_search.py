"""Job search: the agent searches, a person chooses the jobs and confirms, and only then applications go out.

python -m examples.flow_job_search
"""

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
JOBS = [
    {"id": "lumen", "title": "Senior developer, Lumen", "salary": "85,000 EUR", "remote": "fully"},
    {"id": "harbour", "title": "Platform engineer, Harbour", "salary": "92,000 EUR", "remote": "fully"},
    {"id": "steelworks", "title": "Team lead, Steelworks", "salary": "98,000 EUR", "remote": "two days"},
]
APPLIED: list[str] = []

# The service: a job board that lets nobody be applied for without their word.
placet = Placet(
    base_url=f"{URL}/placet",
    db=":memory:",
    service_name="Job Board",
    authenticate=lambda request: request.headers.get("x-agent"),
)
app = FastAPI(lifespan=placet.lifespan, exception_handlers=placet.exception_handlers)
app.mount("/placet", placet)


@app.post("/search")
async def search(request: Request) -> Any:
    """Found jobs are the person's to choose from."""
    question = f"{len(JOBS)} jobs found. Which ones do you want to apply for?"
    return await placet.selection(question, options=JOBS, request=request, timeout="24h")


@app.post("/applications")
async def prepare(request: Request, search_id: str) -> Any:
    """Applications for what the person chose, and nothing else; each is confirmed before it leaves."""
    chosen = await require_decision(request, search_id, "select")
    items = [job for job in JOBS if job["id"] in chosen["selected"]]
    return await placet.confirmation("Send these applications?", items=items, request=request)


@app.post("/applications/{case_id}/send")
async def send(request: Request, case_id: str) -> dict[str, list[str]]:
    """What was confirmed goes out."""
    confirmed = await require_decision(request, case_id, "confirm")
    APPLIED.extend(confirmed["confirmed_items"])
    return {"sent": APPLIED}


async def require_decision(request: Request, case_id: str, action: str) -> dict[str, Any]:
    """What a person said in this case; silence and every other answer stop here."""
    found = await placet.status(case_id, request=request)
    if found.result is None or found.result.action != action:
        raise HTTPException(409, "Nobody has decided this.")
    return found.result.data


# The person: wants to work from home, and answers each question that arrives.
ANSWERS: dict[str, tuple[str, Fields]] = {
    "selection": ("select", {"selected": ["lumen", "harbour"], "note": "Only fully remote."}),
    "confirmation": ("confirm", {"confirmed_items": ["lumen", "harbour"]}),
}


def main() -> None:
    """The agent: asks the service, brings each question to Ada, and acts on what she decided."""
    ada = Person("Ada")

    def tell(notice: Notice) -> None:
        if notice.name != "requested":
            return
        case = notice.case
        say("agent", f"tells Ada: {case.prompt}")
        too_early = {
            "selection": f"/applications?search_id={case.case_id}",
            "confirmation": f"/applications/{case.case_id}/send",
        }
        assert http.post(too_early[case.type]).status_code == 409, "nobody has answered yet"
        ada.opens(case.review_url, *ANSWERS[case.type])

    http = httpx.Client(base_url=URL, headers={"X-Agent": "job-agent"})
    agent = Agent(tell=tell, http=http, max_wait=timedelta(seconds=PATIENCE_S))
    with serve_app(app, PORT), http, ada:
        say("agent", "searches for jobs")
        choice = agent.request("POST", "/search")
        assert isinstance(choice, Decided)
        assert choice.data == {"selected": ["lumen", "harbour"], "note": "Only fully remote."}
        say("agent", f"goes on with {' and '.join(choice.data['selected'])}")

        word = agent.request("POST", f"/applications?search_id={choice.case_id}")
        assert isinstance(word, Decided)
        assert word.action == "confirm"
        assert APPLIED == []

        assert http.post(f"/applications/{word.case_id}/send").json() == {"sent": ["lumen", "harbour"]}
        say("Job Board", f"sent the applications: {', '.join(APPLIED)}")
    assert APPLIED == ["lumen", "harbour"]


if __name__ == "__main__":
    main()
