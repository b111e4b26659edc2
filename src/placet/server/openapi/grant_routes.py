"""Routes that list, use and revoke what people allowed in advance."""

from placet.desk.draft import CaseId
from placet.errors import CaseNotFound, ValidationFailed
from placet.server.grant_api import GrantList, GrantView, UseReply, UseRequest
from placet.server.openapi import examples
from placet.server.openapi.route import BODY_ERRORS, KEY_ERRORS, LIMIT, Body, Parameter, Reply, Route

GRANTS = "Grants"
GRANT_ID = Parameter(name="grant_id", where="path", type=CaseId, about="The grant's id.")

GRANT_ROUTES: tuple[Route, ...] = (
    Route(
        method="get",
        path="/v1/grants",
        name="listGrants",
        tag=GRANTS,
        summary="List what people allowed you",
        about="Newest first, with those that are over. A key with the scope `admin` lists everyone's.",
        parameters=(
            Parameter(name="before", where="query", type=CaseId, about="The `next` of the page before."),
            LIMIT,
        ),
        replies=(Reply(status=200, about="A page of grants.", model=GrantList, examples=examples.GRANTS),),
        errors=(ValidationFailed, *KEY_ERRORS),
    ),
    Route(
        method="post",
        path="/v1/grants/use",
        name="useGrant",
        tag=GRANTS,
        summary="May this call run without asking?",
        about=(
            "If a grant covers the call, one use of it is spent and you get it; run the call. If `grant` is "
            "null, and after any error, ask a person. Never ask here about a call of high risk."
        ),
        body=Body(model=UseRequest, about="The call, exactly as it would run.", examples=examples.USE),
        replies=(
            Reply(
                status=200,
                about="The grant that covers the call, or null.",
                model=UseReply,
                examples=examples.USED,
            ),
        ),
        errors=(*BODY_ERRORS, CaseNotFound, *KEY_ERRORS),
    ),
    Route(
        method="get",
        path="/v1/grants/{grant_id}",
        name="showGrant",
        tag=GRANTS,
        summary="Look at one grant",
        about="What it covers, who gave it, and what is left of it.",
        parameters=(GRANT_ID,),
        replies=(Reply(status=200, about="The grant.", model=GrantView, examples=examples.GRANT),),
        errors=(CaseNotFound, *KEY_ERRORS),
    ),
    Route(
        method="post",
        path="/v1/grants/{grant_id}/revoke",
        name="revokeGrant",
        tag=GRANTS,
        summary="End a grant",
        about="It covers nothing from now on. Who ended it stands in the case's log; again changes nothing.",
        parameters=(GRANT_ID,),
        replies=(Reply(status=200, about="The grant, ended.", model=GrantView, examples=examples.ENDED),),
        errors=(CaseNotFound, *KEY_ERRORS),
    ),
)
