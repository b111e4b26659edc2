"""Wherever a config hides in a call, the agent gets the relay's address in its place."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import DIALECTS, REST_0_3, REST_1_0, RPC_0_3, RPC_1_0, Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.push_configs import (
    CONFIG_PARENT_FIELDS,
    find_push_target,
    list_config_urls,
    replace_push_target,
    restore_push_targets,
)
from placet.relay.a2a.reply import A2AReply
from placet.relay.push import build_push_payload

THEIRS = "https://caller.example/secret-hook"
OURS = "https://relay.example/relay/v1/webhooks/x/notifications"
config = st.fixed_dictionaries(
    {"url": st.just(THEIRS)},
    optional={
        "token": st.just("secret-token"),
        "authentication": st.just({"scheme": "Bearer", "credentials": "secret-credential"}),
        "id": st.just("one"),
        "unknown": st.just(7),
    },
)
places: st.SearchStrategy[Any] = st.recursive(
    config | st.just({}) | st.just([]),
    lambda inner: (
        st.dictionaries(st.sampled_from(sorted(CONFIG_PARENT_FIELDS)) | st.just("else"), inner, max_size=2)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    inner=places,
    dialect=st.sampled_from(DIALECTS),
    operation=st.sampled_from(["send", "stream", "push_create"]),
    name=st.sampled_from(sorted(CONFIG_PARENT_FIELDS)),
)
def test_every_push_address_is_replaced(inner: Any, dialect: Dialect, operation: Any, name: str) -> None:
    params = {"message": {"parts": [{"text": THEIRS}]}, name: inner}
    document = {"jsonrpc": "2.0", "id": 1, "params": params} if dialect.rpc else params
    call = A2ACall(dialect=dialect, operation=operation, document=document)
    try:
        address = find_push_target(call)
    except A2AError:
        return
    changed = call if address is None else replace_push_target(call, OURS, "relay-token")
    assert changed.params["message"] == params["message"]
    reachable = json.dumps([one for key, one in changed.params.items() if key != "message"])
    if address is None:
        assert not list(_list_configs(inner))
    else:
        assert address.url == THEIRS
        for secret in ("secret-token", "secret-credential"):
            assert secret not in json.dumps(list(_list_configs(changed.params[name])))
        assert OURS in reachable


def _list_configs(value: Any) -> Any:
    """Every config that stands where an agent may look."""
    if isinstance(value, list):
        for one in value:
            yield from _list_configs(one)
    elif isinstance(value, dict):
        if "url" in value:
            yield value
        for key in CONFIG_PARENT_FIELDS & value.keys():
            yield from _list_configs(value[key])


@pytest.mark.parametrize(
    ("made", "read", "shown"),
    [
        ({"scheme": "Basic", "credentials": "c"}, RPC_0_3, {"schemes": ["Basic"], "credentials": "c"}),
        (
            {"schemes": ["Basic", "Bearer"], "credentials": "c"},
            REST_1_0,
            {"scheme": "Basic", "credentials": "c"},
        ),
        ({"scheme": "Basic", "credentials": "c"}, RPC_1_0, {"scheme": "Basic", "credentials": "c"}),
        ({"schemes": ["Basic"], "credentials": "c"}, REST_0_3, {"schemes": ["Basic"], "credentials": "c"}),
    ],
)
def test_a_config_made_in_one_version_reads_well_in_the_other(made: Any, read: Dialect, shown: Any) -> None:
    params = {"url": THEIRS, "authentication": made}
    call = A2ACall(dialect=REST_1_0, operation="push_create", document=params)
    address = find_push_target(call)
    assert address is not None
    answer = {"configs": [{"id": "one", "url": OURS, "token": "relay-token"}]}
    assert list_config_urls(answer) == [OURS]
    assert restore_push_targets(answer, {OURS: address}, read) == {
        "configs": [{"id": "one", "url": THEIRS, "authentication": shown}]
    }


def test_endlessly_nested_answer_is_refused() -> None:
    deep: Any = {"url": OURS}
    for _ in range(400):
        deep = {"configs": [deep]}
    with pytest.raises(A2AError):
        restore_push_targets(deep, {}, RPC_1_0)


LEGACY = {
    "kind": "task",
    "id": "t",
    "contextId": "c",
    "status": {
        "state": "input-required",
        "message": {
            "kind": "message",
            "messageId": "m",
            "role": "agent",
            "parts": [{"kind": "text", "text": "which?"}],
        },
    },
    "artifacts": [{"artifactId": "a", "parts": [{"kind": "data", "data": {"n": 1}}]}],
    "unknown": 7,
}
MODERN = {
    "id": "t",
    "contextId": "c",
    "status": {
        "state": "TASK_STATE_INPUT_REQUIRED",
        "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "which?"}]},
    },
    "artifacts": [{"artifactId": "a", "parts": [{"data": {"n": 1}}]}],
    "unknown": 7,
}
UPDATE = {"taskId": "t", "contextId": "c", "status": MODERN["status"], "metadata": {"a": 1}}
PIECE = {
    "taskId": "t",
    "contextId": "c",
    "append": True,
    "artifact": {"artifactId": "a", "parts": [{"text": "x"}]},
}


@pytest.mark.parametrize(
    ("pushed", "modern", "legacy"),
    [
        ({"task": MODERN}, {"task": MODERN}, LEGACY),
        (LEGACY, {"task": MODERN}, LEGACY),
        (
            {"statusUpdate": UPDATE},
            {"statusUpdate": UPDATE},
            {"kind": "task", "id": "t", "contextId": "c", "status": LEGACY["status"], "metadata": {"a": 1}},
        ),
        (
            {"artifactUpdate": PIECE},
            {"artifactUpdate": PIECE},
            {
                "kind": "task",
                "id": "t",
                "contextId": "c",
                "status": {"state": "working"},
                "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]}],
            },
        ),
        (
            {
                "message": {
                    "messageId": "m",
                    "taskId": "t",
                    "contextId": "c",
                    "role": "ROLE_AGENT",
                    "parts": [],
                }
            },
            {
                "message": {
                    "messageId": "m",
                    "taskId": "t",
                    "contextId": "c",
                    "role": "ROLE_AGENT",
                    "parts": [],
                }
            },
            {
                "kind": "task",
                "id": "t",
                "contextId": "c",
                "status": {"state": "working"},
                "history": [
                    {
                        "kind": "message",
                        "messageId": "m",
                        "taskId": "t",
                        "contextId": "c",
                        "role": "agent",
                        "parts": [],
                    }
                ],
            },
        ),
    ],
    ids=["task", "task of 0.3", "change", "piece", "message"],
)
def test_receivers_get_the_shape_of_their_version(pushed: Any, modern: Any, legacy: Any) -> None:
    reply = A2AReply(dialect=REST_1_0, operation="subscribe", document=pushed)
    for dialect in (RPC_1_0, REST_1_0):
        assert build_push_payload(reply, dialect) == modern
    for dialect in (RPC_0_3, REST_0_3):
        assert build_push_payload(reply, dialect) == legacy
