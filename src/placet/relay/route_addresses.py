"""The relay's paths: it declares its routes with them, and the command line calls its operations by name.

Handlers need the relay's packages, and a client has only the core installation. So the paths are here.
"""

from collections.abc import Mapping

from placet.http.route import OperationAddress
from placet.ports.identity import CASES_READ, CASES_WRITE

AGENT_PROXY = "/relay/v1/agents/"
"""The proxy serves every path below it; the first step is the id of the agent."""
CARD_SCOPE = CASES_READ
"""The scope that a key needs to read an agent's card, unless cards are public."""
CALL_SCOPE = CASES_WRITE
"""The scope that a key needs to call an agent, by JSON-RPC, HTTP+JSON or gRPC."""
WEBHOOKS = "/relay/v1/webhooks/"
NOTIFICATIONS = "/notifications"
"""What follows the id of a webhook."""
TENANT_QUERY = "tenantId"
"""The query parameter of every operation that names the tenant."""

OPERATIONS: Mapping[str, OperationAddress] = {
    address.name: address
    for address in (
        OperationAddress("GET", "/relay/v1/approvals", "listApprovals"),
        OperationAddress("GET", "/relay/v1/approvals/{id}", "getApproval"),
        OperationAddress("POST", "/relay/v1/approvals/{id}/resolve", "resolveApproval"),
        OperationAddress("POST", "/relay/v1/approvals/{id}/link", "linkToApproval"),
        OperationAddress("GET", "/relay/v1/registry/agents", "listAgents"),
        OperationAddress("POST", "/relay/v1/registry/agents", "registerAgent"),
        OperationAddress("GET", "/relay/v1/registry/agents/{agentId}", "getAgent"),
        OperationAddress("PUT", "/relay/v1/registry/agents/{agentId}", "changeAgent"),
        OperationAddress("DELETE", "/relay/v1/registry/agents/{agentId}", "removeAgent"),
        OperationAddress("GET", "/relay/v1/registry/callers", "listCallers"),
        OperationAddress("POST", "/relay/v1/registry/callers", "registerCaller"),
        OperationAddress("GET", "/relay/v1/registry/callers/{name}", "getCaller"),
        OperationAddress("PUT", "/relay/v1/registry/callers/{name}", "changeCaller"),
        OperationAddress("DELETE", "/relay/v1/registry/callers/{name}", "removeCaller"),
        OperationAddress("GET", "/relay/v1/registry/subscriptions", "listSubscriptions"),
        OperationAddress("PUT", "/relay/v1/registry/subscriptions/{source}/{sink}", "subscribe"),
        OperationAddress("DELETE", "/relay/v1/registry/subscriptions/{source}/{sink}", "unsubscribe"),
        OperationAddress("GET", "/relay/v1/groups", "listGroups"),
        OperationAddress("POST", "/relay/v1/groups", "createGroup"),
        OperationAddress("GET", "/relay/v1/groups/{name}", "getGroup"),
        OperationAddress("PUT", "/relay/v1/groups/{name}", "changeGroup"),
        OperationAddress("DELETE", "/relay/v1/groups/{name}", "removeGroup"),
        OperationAddress("POST", "/relay/v1/policies/evaluate", "evaluatePolicies"),
        OperationAddress("POST", "/relay/v1/policies/replay", "replayPolicy"),
        OperationAddress("POST", "/relay/v1/policies", "createPolicy"),
        OperationAddress("GET", "/relay/v1/policies", "listPolicies"),
        OperationAddress("GET", "/relay/v1/policies/{policyId}", "getPolicy"),
        OperationAddress("PUT", "/relay/v1/policies/{policyId}", "updatePolicy"),
        OperationAddress("DELETE", "/relay/v1/policies/{policyId}", "retirePolicy"),
        OperationAddress("GET", "/relay/v1/policies/{policyId}/versions", "listPolicyVersions"),
        OperationAddress("GET", "/relay/v1/policies/{policyId}/versions/{version}", "getPolicyVersion"),
        OperationAddress("POST", "/relay/v1/policy-groups", "createPolicyGroup"),
        OperationAddress("GET", "/relay/v1/policy-groups", "listPolicyGroups"),
        OperationAddress("GET", "/relay/v1/policy-groups/{id}", "getPolicyGroup"),
        OperationAddress("PUT", "/relay/v1/policy-groups/{id}", "updatePolicyGroup"),
        OperationAddress("DELETE", "/relay/v1/policy-groups/{id}", "deletePolicyGroup"),
        OperationAddress("POST", "/relay/v1/policy-bindings", "createPolicyBinding"),
        OperationAddress("GET", "/relay/v1/policy-bindings", "listPolicyBindings"),
        OperationAddress("PUT", "/relay/v1/policy-bindings/reorder", "reorderPolicyBindings"),
        OperationAddress("GET", "/relay/v1/policy-bindings/{id}", "getPolicyBinding"),
        OperationAddress("PUT", "/relay/v1/policy-bindings/{id}", "updatePolicyBinding"),
        OperationAddress("DELETE", "/relay/v1/policy-bindings/{id}", "deletePolicyBinding"),
        OperationAddress("GET", "/audit/v1/events", "listAuditEvents"),
        OperationAddress("GET", "/audit/v1/events/{eventId}", "getAuditEvent"),
        OperationAddress("GET", "/audit/v1/traces", "listTraces"),
        OperationAddress("GET", "/audit/v1/traces/{correlationId}", "getTrace"),
        OperationAddress("GET", "/audit/v1/export", "exportAuditEvents"),
        OperationAddress("GET", "/relay/v1/tenant", "getTenant"),
        OperationAddress("PUT", "/relay/v1/tenant", "changeTenant"),
    )
}
"""The operations of the management API, by name."""

RELAY_PATHS = (AGENT_PROXY, WEBHOOKS, *(address.path for address in OPERATIONS.values()))
