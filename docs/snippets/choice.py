from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from placet import Placet, RequestError, require_choice

placet = Placet(base_url="http://127.0.0.1:8000/placet", authenticate=lambda r: r.headers.get("x-agent"))
app = FastAPI(lifespan=placet.lifespan)
app.mount("/placet", placet)


@app.exception_handler(RequestError)
async def refuse(request: Request, error: RequestError):
    return JSONResponse(error.body(), error.status)


@app.post("/posts")
async def publish(request: Request, body: dict[str, Any]):
    if require_choice(body) == "skip":
        return JSONResponse({"published": body["text"], "hitl_skipped": True}, 201)
    return await placet.approval(
        "May this go online?",
        artifact={"text": body["text"]},
        previous_case_id=body.get("previous_case_id"),
        request=request,
    )


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

with TestClient(app, headers={"x-agent": "press"}) as agent:
    nothing = agent.post("/posts", json={"text": "Hi"})
    assert (nothing.status_code, nothing.json()["error"]) == (400, "HITL_CHOICE_REQUIRED")
    both = agent.post("/posts", json={"text": "Hi", "prefer_hitl": True, "skip_hitl": True})
    assert (both.status_code, both.json()["error"]) == (400, "VALIDATION_ERROR")
    assert agent.post("/posts", json={"text": "Hi", "skip_hitl": True}).status_code == 201
    first = agent.post("/posts", json={"text": "Hi", "prefer_hitl": True})
    assert first.status_code == 202
    again = {"text": "Hello", "previous_case_id": first.json()["hitl"]["case_id"]}
    assert agent.post("/posts", json=again).status_code == 400  # the first one is not decided yet
