"""The API's quieter routes: listing cases, callback addresses, deliveries and grants."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from placet.desk.outbox import Outbox
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseNotFound
from placet.ports.identity import Principal
from placet.ports.outbox_store import OutboxStore
from placet.server.case_api import CaseApi, require_caller
from placet.server.endpoint_api import EndpointApi, delivery_view
from placet.server.grant_api import GrantApi
from placet.server.public import json_response
from placet.server.wire import Scope, read_body


class RestApi:
    """Routes that need a credential but no speed."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        authenticate: Callable[[Scope], Awaitable[Principal]],
        cases: CaseApi,
        outbox: Outbox,
        deliveries: OutboxStore,
    ) -> None:
        self._desk = desk
        self._authenticate = authenticate
        self._cases = cases
        self._endpoints = EndpointApi(desk, deliveries)
        self._deliveries = deliveries
        self._outbox = outbox
        self._grants = GrantApi(desk.grants)

    @property
    def routes(self) -> list[Route]:
        """Where they are."""
        return [
            Route("/v1/reviews", self.list_cases),
            Route("/v1/callbacks", self.callbacks, methods=["GET", "POST"]),
            Route("/v1/deliveries", self.list_deliveries),
            Route("/v1/deliveries/{delivery_id}/replay", self.replay_delivery, methods=["POST"]),
            Route("/v1/grants", self.list_grants),
            Route("/v1/grants/use", self.use_grant, methods=["POST"]),
            Route("/v1/grants/{grant_id}", self.show_grant),
            Route("/v1/grants/{grant_id}/revoke", self.revoke_grant, methods=["POST"]),
        ]

    async def list_cases(self, request: Request) -> Response:
        """The caller's cases."""
        principal = await self._authenticate(request.scope)
        return json_response(await self._cases.list(request.query_params, principal))

    async def callbacks(self, request: Request) -> Response:
        """One address with two methods, so that a refusal of a third can name both."""
        return await (self.save_callback if request.method == "POST" else self.list_callbacks)(request)

    async def list_callbacks(self, request: Request) -> Response:
        """The caller's callback addresses with their secrets."""
        return json_response(await self._endpoints.list(await self._authenticate(request.scope)))

    async def save_callback(self, request: Request) -> Response:
        """Register a callback address, rotate its secret, or enable it again."""
        principal = await self._authenticate(request.scope)
        body = await read_body(request.scope, request.receive, limit=self._desk.limits.max_body_bytes)
        return json_response(await self._endpoints.save(body, principal))

    async def list_deliveries(self, request: Request) -> Response:
        """How the caller's callbacks fared."""
        principal = await self._authenticate(request.scope)
        return json_response(await self._endpoints.deliveries(dict(request.query_params), principal))

    async def replay_delivery(self, request: Request) -> Response:
        """Send one callback again."""
        principal = await self._authenticate(request.scope)
        require_caller(principal, "cases:write")
        delivery = await self._deliveries.get_delivery(request.path_params["delivery_id"])
        if delivery is None or delivery.owner != (principal.name or ""):
            raise CaseNotFound("There is no such delivery for you.")
        return json_response(delivery_view(await self._outbox.replay(delivery.id)), status=202)

    async def list_grants(self, request: Request) -> Response:
        """What people allowed the caller in advance."""
        principal = await self._authenticate(request.scope)
        return json_response(await self._grants.list(request.query_params, principal))

    async def use_grant(self, request: Request) -> Response:
        """Spend one use of a grant on a call."""
        principal = await self._authenticate(request.scope)
        body = await read_body(request.scope, request.receive, limit=self._desk.limits.max_body_bytes)
        return json_response(await self._grants.use(body, principal))

    async def show_grant(self, request: Request) -> Response:
        """One grant."""
        principal = await self._authenticate(request.scope)
        return json_response(await self._grants.show(request.path_params["grant_id"], principal))

    async def revoke_grant(self, request: Request) -> Response:
        """End a grant."""
        principal = await self._authenticate(request.scope)
        return json_response(await self._grants.revoke(request.path_params["grant_id"], principal))
