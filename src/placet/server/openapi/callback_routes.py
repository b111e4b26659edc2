"""Routes that manage where outcomes are sent, and show how that went."""

from placet.desk.draft import CaseId
from placet.errors import CaseNotFound, RequestError, ValidationFailed
from placet.ports.outbox_store import DeliveryState
from placet.server.endpoint_api import DeliveryList, DeliveryView, EndpointList, EndpointRequest, EndpointView
from placet.server.openapi import examples
from placet.server.openapi.route import BODY_ERRORS, KEY_ERRORS, LIMIT, Body, Parameter, Reply, Route

CALLBACKS = "Callbacks"

CALLBACK_ROUTES: tuple[Route, ...] = (
    Route(
        method="get",
        path="/v1/callbacks",
        name="listCallbacks",
        tag=CALLBACKS,
        summary="List your callback addresses",
        about="Each with the secrets that sign what it receives; two while a secret is being rotated.",
        replies=(
            Reply(status=200, about="Your addresses.", model=EndpointList, examples=examples.ENDPOINTS),
        ),
        errors=KEY_ERRORS,
    ),
    Route(
        method="post",
        path="/v1/callbacks",
        name="saveCallback",
        tag=CALLBACKS,
        summary="Register a callback address, or change its secret",
        about=(
            "The same address twice is one. `rotate` makes a new secret and lets the old one sign along for "
            "a day; `enable` switches on an address that answered 410."
        ),
        body=Body(model=EndpointRequest, about="The address.", examples=examples.REGISTRATION),
        replies=(
            Reply(
                status=200,
                about="The address with its secrets.",
                model=EndpointView,
                examples=examples.ENDPOINT,
            ),
        ),
        errors=(*BODY_ERRORS, *KEY_ERRORS),
    ),
    Route(
        method="get",
        path="/v1/deliveries",
        name="listDeliveries",
        tag=CALLBACKS,
        summary="See how your callbacks fared",
        about="Newest first, without their bodies.",
        parameters=(
            Parameter(name="case_id", where="query", type=CaseId, about="Only those of this case."),
            Parameter(
                name="state",
                where="query",
                type=DeliveryState,
                about="Only those in this state.",
            ),
            LIMIT,
        ),
        replies=(Reply(status=200, about="Deliveries.", model=DeliveryList, examples=examples.DELIVERIES),),
        errors=(ValidationFailed, *KEY_ERRORS),
    ),
    Route(
        method="post",
        path="/v1/deliveries/{delivery_id}/replay",
        name="replayDelivery",
        tag=CALLBACKS,
        summary="Send one callback again",
        about="The same bytes under the same `webhook-id`, whatever became of it before.",
        parameters=(Parameter(name="delivery_id", where="path", type=CaseId, about="The delivery's id."),),
        replies=(
            Reply(status=202, about="It is on its way.", model=DeliveryView, examples=examples.DELIVERY),
        ),
        errors=(RequestError, CaseNotFound, *KEY_ERRORS),
    ),
)
