"""What is read ahead of a message is what would have been read bit by bit."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.relay.a2a.call import A2ACall, precompute_fields
from placet.relay.a2a.dialects import REST_1_0, RPC_0_3, RPC_1_0
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply, check_reply

odd = st.sampled_from([None, "", "x", 7, [], {}, ["x"], {"state": "TASK_STATE_WORKING"}])
ids = st.sampled_from(["", "an id", "other"]) | odd
status = st.fixed_dictionaries(
    {}, optional={"state": st.sampled_from(["completed", "TASK_STATE_COMPLETED", "new"]) | odd}
)
tasks = st.fixed_dictionaries(
    {}, optional={"id": ids, "contextId": ids, "context_id": ids, "status": status | odd, "kind": odd}
)
results = st.fixed_dictionaries({}, optional={"task": tasks | odd, "id": ids, "status": odd, "message": odd})
messages = st.fixed_dictionaries(
    {},
    optional={
        "messageId": ids,
        "message_id": ids,
        "contextId": ids,
        "context_id": ids,
        "taskId": ids,
        "referenceTaskIds": odd,
        "parts": odd,
    },
)
params = st.fixed_dictionaries(
    {},
    optional={
        "message": messages | odd,
        "request": messages | odd,
        "contextId": ids,
        "taskId": ids,
        "name": ids,
        "configuration": odd,
    },
)


def read_attributes(message: A2ACall | A2AReply, *names: str) -> list[Any]:
    found: list[Any] = []
    for name in names:
        try:
            found.append(getattr(message, name))
        except A2AError as problem:
            found.append((problem.kind, problem.message))
    return found


@given(results | odd, st.sampled_from(["send", "stream", "get", "list", "push_get"]))
def test_an_answer(result: Any, operation: Any) -> None:
    documents = [(RPC_1_0, {"result": result}), (RPC_0_3, {"result": result})]
    documents += [(REST_1_0, result)] if isinstance(result, dict) else []
    for dialect, document in documents:
        ahead = check_reply(dialect, operation, document)
        bit_by_bit = A2AReply(dialect=dialect, operation=operation, document=document)
        names = ("result", "task", "task_id", "context_id", "state", "message_id")
        assert read_attributes(ahead, *names) == read_attributes(bit_by_bit, *names)


@given(params | odd, st.sampled_from(["send", "stream", "get", "push_create"]))
def test_a_call(told: Any, operation: Any) -> None:
    for dialect in (RPC_1_0, RPC_0_3, REST_1_0):
        document = {"params": told} if dialect.rpc else (told if isinstance(told, dict) else None)
        ahead = A2ACall(dialect=dialect, operation=operation, document=document)
        bit_by_bit = A2ACall(dialect=dialect, operation=operation, document=document)
        precompute_fields(ahead)
        names = ("params", "message", "message_id", "context_id", "task_ids", "task_id")
        assert read_attributes(ahead, *names) == read_attributes(bit_by_bit, *names)
