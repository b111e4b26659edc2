"""What wrk sends: to the relay, to the raw proxy beside it, and to the agent itself."""

from pathlib import Path

from bench.measure import Traffic
from bench.relay import raw, scene
from bench.relay.process import Relay
from placet.relay.route_addresses import AGENT_PROXY as RELAY

COMMON = ("Content-Type: application/json", "A2A-Version: 1.0")
STREAMING_CONNECTIONS = 8


class Requests:
    """Makes the traffic of every row."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, body in {"send": scene.SEND, "stream": scene.STREAM, "held": scene.HELD}.items():
            (folder / f"{name}.json").write_bytes(body)

    def send_through_relay(self, relay: Relay, agent: str, *, connections: int) -> Traffic:
        """One message after the other, through the relay."""
        return self._posts(f"{RELAY}{agent}", "send", relay.keys[agent], connections)

    def send_through_raw_proxy(self, relay: Relay, path: str = "", *, connections: int) -> Traffic:
        """The same through the raw proxy; it has the same key to carry."""
        return self._posts(f"{raw.PREFIX}{path}", "send", relay.keys[scene.JUDGED], connections)

    def stream_through_relay(self, relay: Relay, agent: str) -> Traffic:
        """One stream after the other, through the relay."""
        return self._posts(f"{RELAY}{agent}", "stream", relay.keys[agent], STREAMING_CONNECTIONS)

    def stream_through_raw_proxy(self, relay: Relay) -> Traffic:
        """The same through the raw proxy."""
        return self._posts(raw.PREFIX, "stream", relay.keys[scene.JUDGED], STREAMING_CONNECTIONS)

    def send_directly(self, relay: Relay) -> Traffic:
        """One message after the other to the agent itself, over one connection."""
        return self._posts("/", "send", relay.keys[scene.JUDGED], 1)

    def send_held_messages(self, relay: Relay, first: int) -> Traffic:
        """Messages that a policy holds, each another one; `first` tells them from those of other slices."""
        file = str(self._folder / "held.json")
        return Traffic(
            script="post_numbered",
            arguments=(f"{RELAY}{scene.JUDGED}", file, scene.NUMBER, str(first)),
            headers=(*COMMON, f"Authorization: Bearer {relay.keys[scene.JUDGED]}"),
        )

    def _posts(self, path: str, body: str, key: str, connections: int) -> Traffic:
        return Traffic(
            script="post",
            arguments=(path, str(self._folder / f"{body}.json")),
            headers=(*COMMON, f"Authorization: Bearer {key}"),
            connections=connections,
        )
