"""A relay that is killed and started again knows whose tasks and conversations are whose."""

from pathlib import Path
from typing import Any

import apsw
import httpx

from tests.cli.process import ServerProcess, placet, serving
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.waiting import eventually

CONFIG = """
allow_loopback = true

[relay.agents.errands]
url = "{url}"
[relay.callers.ann]
agents = ["errands"]
[relay.callers.bob]
agents = ["errands"]
"""


def create_caller_key(folder: Path, name: str) -> str:
    made = placet(folder, "key", "create", name, "--db", "cases.db")
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def call(server: ServerProcess, key: str, method: str, **params: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0"}
    document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with httpx.Client(verify=False, timeout=60) as client:
        answer = client.post(f"{server.url()}/relay/v1/agents/errands", json=document, headers=headers)
    found: dict[str, Any] = answer.json()
    return found


def send(server: ServerProcess, key: str, text: str, **fields: Any) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **fields}
    return call(server, key, "SendMessage", message=message)


def is_stored(db: Path, task_id: str) -> bool:
    connection = apsw.Connection(str(db))
    try:
        return bool(connection.execute("SELECT 1 FROM relay_tasks WHERE id = ?", (task_id,)).fetchall())
    finally:
        connection.close()


def test_after_a_kill_a_caller_finds_its_task_and_nobody_else_does(agent: SdkAgent, tmp_path: Path) -> None:
    (tmp_path / "placet.toml").write_text(CONFIG.format(url=agent.url))
    with serving(tmp_path) as server:
        server.url()
        ann, bob = create_caller_key(tmp_path, "ann"), create_caller_key(tmp_path, "bob")
        task = send(server, ann, "echo")["result"]["task"]
        assert eventually(lambda: is_stored(tmp_path / "cases.db", task["id"]))
        server.process.kill()
        server.process.wait(60)
    with serving(tmp_path) as server:
        own = call(server, ann, "GetTask", id=task["id"])
        assert own["result"]["id"] == task["id"]
        for method in ("GetTask", "CancelTask"):
            assert call(server, bob, method, id=task["id"])["error"]["code"] == -32001
        refused = send(server, bob, "hello", contextId=task["contextId"])
        assert refused["error"]["message"] == "Context not found."
        went_on = send(server, ann, "echo", contextId=task["contextId"])
        assert went_on["result"]["task"]["contextId"] == task["contextId"]
