import json
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from msgspec import to_builtins
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from placet import Placet
from placet.errors import InvalidToken, PlacetError
from placet.http.dpop import DpopVerifier
from placet.protocol.agent_access import (
    PreparedOperation,
    build_review_context,
    prepare_operation,
    require_committable,
    settle_review,
)

BASE = "http://localhost:8000"
POLICY = {
    "mode": "required",
    "required_for": ["browser_submit"],
    "requirements": {"any_of": [{"all_of": [{"proof_type": "x-passkey"}]}]},
    "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
    "fallback": {"on_missing": "reject", "on_invalid": "reject"},
}
tokens: dict[str, tuple[str, str]] = {}  # access token: its principal, and the thumbprint of its key
operations: dict[str, PreparedOperation] = {}  # keep them in your database
dpop = DpopVerifier(lambda: datetime.now(UTC))


def authenticate(request: Request) -> str:
    """Return who calls: the principal of a DPoP-bound token, with a proof for this request."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "dpop" or token not in tokens:
        raise InvalidToken("Send Authorization: DPoP and a proof.")
    principal, thumbprint = tokens[token]
    proof, url = request.headers.get("dpop", ""), f"{BASE}{request.url.path}"
    dpop.verify(proof, method=request.method, url=url, access_token=token, thumbprint=thumbprint)
    return principal


placet = Placet(base_url=f"{BASE}/placet", authenticate=authenticate)


async def prepare(request: Request) -> Response:
    """Freeze the terms, and ask the person. Nothing is booked yet."""
    principal, terms = authenticate(request), await request.json()
    operation = prepare_operation(
        {"item": terms["item"], "total_cents": terms["total_cents"], "currency": "EUR"},
        id=token_hex(16),
        owner=principal,
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        needs_review=True,
    )
    response = await placet.confirmation(
        "Book this?",
        context=build_review_context(operation),
        verification_policy=POLICY,
        reviewers=["ada@acme.example"],
        default_action="abort",
        owner=principal,
    )
    case_id = json.loads(bytes(response.body))["hitl"]["case_id"]
    operations[operation.id] = replace(operation, case_id=case_id)
    return response


async def commit(request: Request) -> Response:
    """Book exactly what was reviewed, once."""
    principal, sent = authenticate(request), await request.json()
    operation = operations[request.path_params["id"]]
    poll = await placet.status(operation.case_id or "", owner=operation.owner)
    operation = settle_review(operation, to_builtins(poll))
    if principal != operation.owner or operation.status != "succeeded":
        require_committable(
            operation,
            principal=principal,
            expected_version=sent["expected_version"],
            snapshot_digest=sent["snapshot_digest"],
            now=datetime.now(UTC),
        )
        operation = operation.move_to("succeeded")  # in one transaction with the booking itself
    operations[operation.id] = operation
    return JSONResponse({"status": operation.status})


async def report(request: Request, error: Exception) -> Response:
    assert isinstance(error, PlacetError)
    return JSONResponse(error.body(), error.status)


app = Starlette(
    routes=[
        Route("/bookings/prepare", prepare, methods=["POST"]),
        Route("/operations/{id}/commit", commit, methods=["POST"]),
        Mount("/placet", placet),
    ],
    exception_handlers={PlacetError: report},
)


# What follows is for the tests.
import asyncio  # noqa: E402
import time  # noqa: E402

import httpx  # noqa: E402
from joserfc import jwt  # noqa: E402
from joserfc.jwk import ECKey  # noqa: E402

from placet.http.dpop import hash_token  # noqa: E402


def make_proof(key: ECKey, url: str, token: str) -> str:
    claims = {
        "jti": token_hex(8),
        "htm": "POST",
        "htu": url,
        "iat": int(time.time()),
        "ath": hash_token(token),
    }
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": key.as_dict(private=False)}
    return jwt.encode(header, claims, key)


async def main() -> None:
    key = ECKey.generate_key("P-256")
    tokens["secret"] = ("agent-1", key.thumbprint())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as agent:

        async def post(path: str, body: dict, key: ECKey = key) -> httpx.Response:
            headers = {"Authorization": "DPoP secret", "DPoP": make_proof(key, f"{BASE}{path}", "secret")}
            return await agent.post(path, json=body, headers=headers)

        prepared = await post("/bookings/prepare", {"item": "flight", "total_cents": 12_000})
        assert prepared.status_code == 202, prepared.text
        binding = prepared.json()["hitl"]["context"]["x-hitl-agent-access"]
        path = f"/operations/{binding['operation_id']}/commit"
        terms = {"expected_version": 1, "snapshot_digest": binding["snapshot_digest"]}
        early = await post(path, terms)
        assert (early.status_code, early.json()["error"]) == (409, "operation_conflict")
        assert (await post(path, terms, ECKey.generate_key("P-256"))).status_code == 401
        assert (await agent.post(path, headers={"Authorization": "Bearer secret"})).status_code == 401
    await placet.aclose()


asyncio.run(main())
