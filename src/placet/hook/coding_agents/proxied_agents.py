"""What coding agents share that talk JSON-RPC with their editor, and that `placet acp` stands between."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from placet.hook.coding_agents.command_hooks import get_dict, get_text, read_object
from placet.hook.coding_agents.host_calls import HostCall, HostDecision, UnreadableCall

Message = dict[str, Any]
MAX_ITEMS = 1000


class SessionFacts(Struct, frozen=True, kw_only=True):
    """What earlier messages said, and a later request does not repeat. Its members are filled on the way."""

    agent: dict[str, Any] = {}
    """What the agent calls itself."""
    folders: dict[str, str] = {}
    """Session -> its working directory."""
    items: dict[str, dict[str, Any]] = {}
    """Id of a call -> what the agent said about it."""

    def learn_item(self, item_id: str, said: Mapping[str, Any]) -> None:
        """Remember what the agent says about a call; the oldest calls are forgotten."""
        known = self.items.pop(item_id, {})
        self.items[item_id] = known | {name: value for name, value in said.items() if value is not None}
        if len(self.items) > MAX_ITEMS:
            del self.items[next(iter(self.items))]


class ProxiedAgent(ABC):
    """A protocol between an editor and an agent. The gate decides about some requests of the agent."""

    name: str
    title: str
    events: tuple[str, ...]
    """The methods that are decided: by the policy, or by a person."""
    prompting_events: tuple[str, ...]
    """Those of them that ask the person at the editor."""

    def build_input(self, message: Message, facts: SessionFacts) -> dict[str, Any]:
        """Return what the hook reads about a request of the agent."""
        params = get_dict(message, "params")
        session = self.find_session(params)
        return {
            "event": message["method"],
            "params": params,
            "agent": find_text(facts.agent, "title", "name"),
            "session": session,
            "folder": facts.folders.get(session, ""),
            "item": facts.items.get(self.find_item(params), {}),
        }

    def read_call(self, event: str, content: bytes) -> HostCall:
        """Return the call that the hook reads; raise UnreadableCall."""
        sent = read_object(content)
        if sent.get("event") != event or not isinstance(sent.get("params"), dict):
            raise UnreadableCall(f"The hook's input is not of the event {event}.")
        return self.build_call(event, sent["params"], sent)

    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return the JSON of a decision. The proxy takes no output for a failure."""
        said: dict[str, Any] = {"event": event, "verdict": "none"}
        if decision is not None:
            said |= {"verdict": decision.verdict, "message": decision.message}
            if decision.arguments is not None:
                said |= {"verdict": "deny", "message": f"{self.title} cannot take a changed call."}
        return json.dumps(said)

    def is_settled(self, call: HostCall, before: object, after: object) -> bool:
        """Return False: the proxy itself ends the hook when the editor has answered."""
        return False

    def change_arguments(self, call: HostCall, arguments: dict[str, Any]) -> HostCall:
        """Return the call: its arguments cannot be changed."""
        return call

    @abstractmethod
    def find_session(self, params: Mapping[str, Any]) -> str:
        """Return the session of a request."""

    @abstractmethod
    def find_item(self, params: Mapping[str, Any]) -> str:
        """Return the id of the call that a request is about; empty if it names none."""

    @abstractmethod
    def build_call(self, event: str, params: dict[str, Any], sent: Mapping[str, Any]) -> HostCall:
        """Return the call that a request is about."""

    @abstractmethod
    def observe(self, message: Message, request: Message | None, facts: SessionFacts) -> None:
        """Remember what a message says; `request` is the one that it answers."""

    @abstractmethod
    def build_cancellation(self, message: Message) -> Message | None:
        """Return what tells the editor that a request was answered elsewhere, if the protocol has it."""

    @abstractmethod
    def build_answer(self, message: Message, *, is_allowed: bool) -> dict[str, Any] | None:
        """Return the result of a request that asks the editor's person; None for an error instead."""


def read_texts(values: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts in a list member."""
    found = values.get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def read_objects(values: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in a list member."""
    found = values.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def find_text(values: Mapping[str, Any], *names: str) -> str:
    """Return the first of these members that is a text."""
    return next((text for name in names if (text := get_text(values, name))), "")
