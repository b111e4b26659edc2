from assent import Assent

assent = Assent(base_url="http://127.0.0.1:8000/assent", db="decisions.db")


async def app(scope, receive, send):
    if scope["type"] == "lifespan" or scope["path"].startswith("/assent/"):
        await assent({**scope, "root_path": "/assent"}, receive, send)
    else:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

with TestClient(app) as anyone:
    assert anyone.get("/assent/healthz").json() == {"status": "ok"}
    assert anyone.get("/elsewhere").status_code == 404
    assert anyone.post("/assent/v1/cases", json={}).status_code == 401
