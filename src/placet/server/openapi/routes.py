"""Every route of the API, as one table."""

from placet.server.openapi.callback_routes import CALLBACK_ROUTES, CALLBACKS
from placet.server.openapi.case_routes import ANSWERS, CASE_ROUTES, CASES
from placet.server.openapi.grant_routes import GRANT_ROUTES, GRANTS
from placet.server.openapi.public_routes import PUBLIC_ROUTES, SERVER
from placet.server.openapi.route import Route

TAGS = {
    CASES: "Ask a person, and learn what they decided.",
    ANSWERS: "Answer for a person who pressed a button in a messenger.",
    CALLBACKS: "Be told instead of asking: addresses of yours that receive outcomes.",
    GRANTS: "What people allowed in advance: so many calls of one tool, for so long.",
    SERVER: "What this server can do, and how it is doing.",
}
ROUTES: tuple[Route, ...] = (*CASE_ROUTES, *CALLBACK_ROUTES, *GRANT_ROUTES, *PUBLIC_ROUTES)
