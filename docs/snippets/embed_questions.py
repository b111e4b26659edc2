from fastapi import FastAPI, HTTPException, Request

from placet import Placet, Principal

KEYS = {"Bearer s3cret": "travel-agent"}


async def who(request: Request) -> Principal | None:
    name = KEYS.get(request.headers.get("authorization", ""))
    return Principal(name=name) if name else None


placet = Placet(base_url="http://127.0.0.1:8000/placet", service_name="Fairwind", authenticate=who)
app = FastAPI(lifespan=placet.lifespan, exception_handlers=placet.exception_handlers)
app.mount("/placet", placet)


@app.post("/trips")
async def plan_trip(request: Request):
    flights = [{"id": "early", "title": "07:10, direct"}, {"id": "late", "title": "19:45, one stop"}]
    return await placet.selection(
        "Which flight shall be booked?",
        options=flights,
        context={"multiple": False, "budget": "200 EUR"},
        request=request,
        timeout="2h",
        default_action="abort",
        idempotency_key=request.headers.get("idempotency-key"),
    )


@app.post("/trips/{case_id}/book")
async def book_trip(request: Request, case_id: str):
    found = await placet.status(case_id, request=request)
    if found.status != "completed" or found.result is None:
        raise HTTPException(409, f"The question is {found.status}.")
    return {"booked": found.result.data["selected"]}


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

with TestClient(app, headers={"authorization": "Bearer s3cret"}) as agent:
    refused = agent.post("/trips", headers={"authorization": "Bearer wrong"})
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_token")
    first = agent.post("/trips", headers={"idempotency-key": "trip 7"}).json()
    assert agent.post("/trips", headers={"idempotency-key": "trip 7"}).json() == first
    hitl = first["hitl"]
    assert agent.post(f"/trips/{hitl['case_id']}/book").status_code == 409
    chosen = {"action": "select", "data": {"selected": ["late"]}}
    agent.post(hitl["review_url"].replace("?", "/respond?"), json=chosen)
    assert agent.post(f"/trips/{hitl['case_id']}/book").json() == {"booked": ["late"]}
    assert agent.post("/trips/review_unknown/book").json()["error"] == "not_found"
