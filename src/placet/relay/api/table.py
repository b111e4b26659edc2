"""The relay's route table: the routes of A2A and of every API class."""

from placet.http.route import HttpApi, Route
from placet.relay.api import a2a_routes
from placet.relay.api.agents import AgentsApi, agents
from placet.relay.api.approvals import ApprovalApi, approvals
from placet.relay.api.audit import AuditApi, audit
from placet.relay.api.bindings import BindingApi, bindings
from placet.relay.api.callers import CallersApi
from placet.relay.api.evaluation import EvaluationApi
from placet.relay.api.groups import GroupsApi, groups
from placet.relay.api.policies import PolicyApi, policies
from placet.relay.api.policy_groups import PolicyGroupApi
from placet.relay.api.policy_groups import groups as policy_groups
from placet.relay.api.replays import ReplayApi
from placet.relay.api.tenant import TenantApi

APIS: tuple[type[HttpApi], ...] = (
    ApprovalApi,
    AgentsApi,
    CallersApi,
    GroupsApi,
    EvaluationApi,
    ReplayApi,
    PolicyApi,
    PolicyGroupApi,
    BindingApi,
    AuditApi,
    TenantApi,
)
API_ROUTES: tuple[Route, ...] = tuple(route for api in APIS for route in api.list_declared_routes())
RELAY_ROUTES: tuple[Route, ...] = (*a2a_routes.A2A_ROUTES, *API_ROUTES)
RELAY_TAGS: dict[str, str] = {
    **a2a_routes.TAGS,
    **{
        group.tag: group.description
        for group in (agents, groups, policies, policy_groups, bindings, approvals, audit)
        if group.tag
    },
}
