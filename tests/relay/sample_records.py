"""One of each thing that the relay's API is about, made in the default tenant."""

import re
from typing import Any

import httpx

from placet.http.route import Route
from tests.server.running import RunningServer
from tests.waiting import PATIENCE_S

POLICY: dict[str, Any] = {
    "config": {
        "type": "REGEX_DETECTION",
        "enabledLegs": {"requestToSink": True},
        "pattern": {"regex": "what nobody ever writes", "action": "BLOCK"},
    },
}
HELD = "nothing is done before a person has looked"
Made = dict[str, str]


def build_message_call(text: str, message_id: str = "m") -> dict[str, Any]:
    """A message as a caller sends it by JSON-RPC."""
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


class SampleRecords:
    """Makes what an address is about: its variables, and a text that only its own tenant may ever see."""

    def __init__(self, server: RunningServer, admin: httpx.Client) -> None:
        self._server = server
        self._admin = admin
        self._number = 0
        self._caller: str | None = None

    def address(self, route: Route) -> tuple[str, str | None] | None:
        """A path of the route with something real in it; None for a route about nothing in particular."""
        if "{" not in route.path:
            return None
        made = self.made_for(route.path)
        return route.path.format(**made), made.get("trace")

    def made_for(self, path: str) -> Made:
        """What a path with variables is about."""
        top = re.sub(r"^/(relay|audit)/v1/", "", path).partition("/{")[0]
        make = getattr(self, f"make_{re.sub('[/-]', '_', top)}", None)
        assert make is not None, f"nobody has said how to make what {path} is about"
        found: Made = make()
        return found

    def make_one_of_each(self) -> list[str]:
        """Something of every kind that is listed; the texts by which to know them."""
        makers = (self.make_registry_agents, self.make_registry_callers, self.make_groups)
        more = (self.make_policies, self.make_policy_groups, self.make_policy_bindings, self.make_approvals)
        return [make()["trace"] for make in (*makers, *more)]

    def make_registry_agents(self) -> Made:
        name = self._name("agent")
        self._post("registry/agents", agentId=name, url=f"https://{name}.example")
        return {"agentId": name, "trace": name}

    def make_registry_callers(self) -> Made:
        name = self._name("caller")
        self._post("registry/callers", name=name, agents=[self.make_registry_agents()["agentId"]])
        return {"name": name, "trace": name}

    def make_registry_subscriptions(self) -> Made:
        agent, caller = self.make_registry_agents()["agentId"], self._name("caller")
        self._post("registry/callers", name=caller, agents=[agent])
        return {"source": caller, "sink": agent, "trace": caller}

    def make_groups(self) -> Made:
        name = self._name("group")
        self._post("groups", name=name, permissions=["AUDIT:READ"])
        return {"name": name, "trace": name}

    def make_policies(self) -> Made:
        made = self._post("policies", name=self._name("policy"), **POLICY)
        return {"policyId": made["policyId"], "version": "1", "trace": made["policyId"]}

    def make_policy_groups(self) -> Made:
        entry = {"orderIndex": 0, "policy": {"policyId": self.make_policies()["policyId"]}}
        made = self._post("policy-groups", name=self._name("group"), policies=[entry])
        return {"id": made["id"], "trace": made["id"]}

    def make_policy_bindings(self) -> Made:
        group = self.make_policy_groups()["id"]
        made = self._post("policy-bindings", groupId=group, bindingLevel="TENANT")
        return {"id": made["id"], "trace": made["id"]}

    def make_approvals(self) -> Made:
        """A message that waits; `caller` may call `ours`, as the test says that uses this."""
        if self._caller is None:
            action = {"regex": HELD, "action": "HUMAN_REVIEW_REQUIRED"}
            config = {**POLICY["config"], "pattern": action}
            policy = self._post("policies", name="A person looks", config=config)
            entry = {"orderIndex": 0, "policy": {"policyId": policy["policyId"]}}
            group = self._post("policy-groups", name="Looking", policies=[entry])
            self._post("policy-bindings", groupId=group["id"], bindingLevel="TENANT")
            self._caller = self._server.create_key("caller")
        trace = self._name("correlation")
        sent = httpx.post(
            f"{self._server.url}/relay/v1/agents/ours",
            json=build_message_call(HELD, trace),  # a repeated message is held once
            headers={
                "Authorization": f"Bearer {self._caller}",
                "A2A-Version": "1.0",
                "X-Correlation-Id": trace,
            },
            timeout=PATIENCE_S,
        )
        assert "HITL_HELD" in sent.text, sent.text
        [held] = self._admin.get("/relay/v1/approvals", params={"correlationId": trace}).json()["content"]
        return {"id": held["id"], "approvalId": held["id"], "trace": trace}

    def make_events(self) -> Made:
        event = self._event()
        return {"eventId": event["eventId"], "id": event["eventId"], "trace": event["eventId"]}

    def make_traces(self) -> Made:
        event = self._event()
        return {"correlationId": event["correlationId"], "trace": event["correlationId"]}

    def _event(self) -> dict[str, Any]:
        self.make_groups()
        listed = self._admin.get("/audit/v1/events", params={"size": 1}).json()
        found: dict[str, Any] = listed["content"][0]
        return found

    def _post(self, path: str, **draft: Any) -> dict[str, Any]:
        response = self._admin.post(f"/relay/v1/{path}", json=draft)
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-of-ours-{self._number}"
