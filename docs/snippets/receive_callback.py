from datetime import UTC, datetime

from fastapi import FastAPI, Request, Response

from placet import verify_callback
from placet.errors import SignatureInvalid

SECRETS = ["whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="]  # yours; two while you rotate
SEEN: set[str] = set()

app = FastAPI()


@app.post("/outcomes")
async def receive(request: Request) -> Response:
    body = await request.body()
    try:
        message_id = verify_callback(
            body, request.headers, secrets=SECRETS, now=datetime.now(UTC), accept_untimed=False
        )
    except SignatureInvalid:
        return Response(status_code=401)
    if message_id not in SEEN:  # the same delivery may come again
        SEEN.add(str(message_id))
        ...  # put it where your own work begins, then answer
    return Response(status_code=204)


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

from placet.protocol.callback import sign_callback  # noqa: E402

sender = TestClient(app)
signed = sign_callback(b"{}", secrets=SECRETS, message_id="msg_1", at=datetime.now(UTC))
assert sender.post("/outcomes", content=b"{}", headers=signed).status_code == 204
assert sender.post("/outcomes", content=b"{}", headers=signed).status_code == 204
assert sender.post("/outcomes", content=b"{1}", headers=signed).status_code == 401
assert sender.post("/outcomes", content=b"{}").status_code == 401
assert len(SEEN) == 1
