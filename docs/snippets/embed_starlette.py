from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from placet import Placet

placet = Placet(base_url="http://127.0.0.1:8000/placet", authenticate=lambda r: r.headers.get("x-agent"))


async def restart(request: Request) -> Response:
    return await placet.confirmation("Restart the mail server?", request=request)


app = Starlette(
    routes=[Route("/restart", restart, methods=["POST"]), Mount("/placet", placet)],
    lifespan=placet.lifespan,
)


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

with TestClient(app, headers={"x-agent": "ops"}) as agent:
    hitl = agent.post("/restart").json()["hitl"]
    agent.post(hitl["review_url"].replace("?", "/respond?"), json={"action": "cancel"})
    assert agent.get(hitl["poll_url"]).json()["result"]["action"] == "cancel"
