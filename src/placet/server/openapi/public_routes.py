"""Routes that anyone may read: what this server can do, and how it is doing."""

from typing import Annotated, Any

from msgspec import Meta

from placet.errors import Unavailable, ValidationFailed
from placet.protocol.versions import SPEC_VERSIONS
from placet.server.metrics import CONTENT_TYPE
from placet.server.openapi.models import Discovery, Health, KeySet
from placet.server.openapi.route import Parameter, Reply, Route

SERVER = "Server"


def _public(path: str, name: str, summary: str, about: str, reply: Reply, *more: Any) -> Route:
    return Route(
        method="get",
        path=path,
        name=name,
        tag=SERVER,
        summary=summary,
        about=about,
        credential="none",
        parameters=tuple(one for one in more if isinstance(one, Parameter)),
        replies=(reply,),
        errors=tuple(one for one in more if not isinstance(one, Parameter)),
    )


PUBLIC_ROUTES: tuple[Route, ...] = (
    _public(
        "/.well-known/hitl.json",
        "discover",
        "What can this service do?",
        "The HITL Protocol's discovery document: flat up to version 0.6, nested from 0.7 on.",
        Reply(status=200, about="The document.", model=Discovery),
        Parameter(
            name="version",
            where="query",
            type=Annotated[str, Meta(extra_json_schema={"enum": list(SPEC_VERSIONS)})],
            about="The protocol version whose shape you read; the newest unless you say so.",
        ),
        ValidationFailed,
    ),
    _public(
        "/.well-known/jwks.json",
        "readSigningKeys",
        "The keys that verify signed results",
        "A result's `signature` can be checked offline with these.",
        Reply(status=200, about="The keys.", model=KeySet),
    ),
    _public(
        "/openapi.json",
        "readDescription",
        "This description",
        "The document you are reading.",
        Reply(status=200, about="An OpenAPI 3.1 document.", model=dict[str, Any]),
    ),
    _public(
        "/healthz",
        "checkHealth",
        "Is the process alive?",
        "For a supervisor that restarts it.",
        Reply(status=200, about="It is.", model=Health),
    ),
    _public(
        "/readyz",
        "checkReadiness",
        "Can it read and write?",
        "For a load balancer that sends it work.",
        Reply(status=200, about="It can.", model=Health),
        Unavailable,
    ),
    _public(
        "/metrics",
        "readMetrics",
        "Numbers for Prometheus",
        "Events, requests and open streams.",
        Reply(status=200, about="The numbers.", model=str, media=CONTENT_TYPE),
    ),
)
