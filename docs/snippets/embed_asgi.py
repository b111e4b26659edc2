from placet import Placet

placet = Placet(base_url="http://127.0.0.1:8000/placet", db="decisions.db")


async def app(scope, receive, send):
    if scope["type"] == "lifespan" or scope["path"].startswith("/placet/"):
        await placet({**scope, "root_path": "/placet"}, receive, send)
    else:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

with TestClient(app) as anyone:
    assert anyone.get("/placet/healthz").json() == {"status": "ok"}
    assert anyone.get("/elsewhere").status_code == 404
    assert anyone.post("/placet/v1/cases", json={}).status_code == 401
