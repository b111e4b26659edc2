"""A FastAPI service that asks a person before it sends mail; with the agent that calls it, and the person.

python -m examples.service_fastapi
"""

import tempfile
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

from examples.stage import answer, find_free_port, serve_app
from placet import Placet, RequestError

PORT = find_free_port()
AGENTS = {"Bearer agent-password": "mail-agent"}
SENT: dict[str, Any] = {}


def identify_user(request: Request) -> str | None:
    """Your own users: whose request is this?"""
    return AGENTS.get(request.headers.get("authorization", ""))


placet = Placet(
    base_url=f"http://127.0.0.1:{PORT}/placet",
    db=f"{tempfile.mkdtemp()}/placet.db",
    service_name="Mail Room",
    authenticate=identify_user,
)
app = FastAPI(lifespan=placet.lifespan)
app.mount("/placet", placet)


@app.exception_handler(RequestError)
async def refuse(request: Request, error: RequestError) -> JSONResponse:
    """What Placet refuses in your handlers, said as Placet says it."""
    return JSONResponse(error.body(), error.status)


@app.post("/emails")
async def draft_email(request: Request, email: dict[str, str]) -> Any:
    """Nothing is sent yet: a person reads it first."""
    return await placet.approval("May this email go out?", artifact=email, request=request, timeout="4h")


@app.post("/emails/{case_id}/send")
async def send_email(request: Request, case_id: str) -> dict[str, str]:
    """Sent once, and only what was approved."""
    agent = identify_user(request)
    if agent is None:
        raise HTTPException(401)
    found = await placet.status(case_id, owner=agent)
    if found.result is None or found.result.action != "approve":
        raise HTTPException(409, "Nobody has approved this email.")
    SENT[case_id] = found.result
    return {"status": "sent"}


def main() -> None:
    agent = httpx.Client(
        base_url=f"http://127.0.0.1:{PORT}", headers={"Authorization": "Bearer agent-password"}
    )
    with serve_app(app, PORT), agent:
        assert httpx.post(f"http://127.0.0.1:{PORT}/emails", json={}).status_code == 401

        asked = agent.post("/emails", json={"to": "Jo", "body": "Your parcel is on its way."})
        assert asked.status_code == 202
        hitl = asked.json()["hitl"]
        assert agent.post(f"/emails/{hitl['case_id']}/send").status_code == 409

        answer(hitl["review_url"], "approve")

        poll = agent.get(hitl["poll_url"]).json()
        assert (poll["status"], poll["result"]["action"]) == ("completed", "approve")
        assert agent.post(f"/emails/{hitl['case_id']}/send").json() == {"status": "sent"}
    print("approved and sent")


if __name__ == "__main__":
    main()
