from fastapi import FastAPI, Request

from placet import Placet

placet = Placet(base_url="http://127.0.0.1:8000/placet", authenticate=lambda r: r.headers.get("x-agent"))
app = FastAPI(lifespan=placet.lifespan, exception_handlers=placet.exception_handlers)
app.mount("/placet", placet)


@app.post("/emails")
async def send_email(request: Request, email: dict[str, str]):
    return await placet.approval("May this email go out?", artifact=email, request=request)


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

with TestClient(app, headers={"x-agent": "mail"}) as agent:
    asked = agent.post("/emails", json={"to": "Jo", "body": "Hello"})
    assert asked.status_code == 202
    hitl = asked.json()["hitl"]
    assert hitl["review_url"].startswith("http://127.0.0.1:8000/placet/review/")
    assert agent.get(hitl["poll_url"]).json()["status"] == "pending"
    assert agent.get(hitl["poll_url"], headers={"x-agent": "someone else"}).status_code == 404
    agent.post(hitl["review_url"].replace("?", "/respond?"), json={"action": "approve"})
    assert agent.get(hitl["poll_url"]).json()["result"]["action"] == "approve"
    assert agent.post("/emails", json={"to": "Jo"}, headers={"x-agent": ""}).status_code == 401
