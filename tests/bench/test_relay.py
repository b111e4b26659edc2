"""The relay's rows measure what they say: rules that look, messages that are held, streams that are whole."""

from collections.abc import Iterator

import httpx
import msgspec
import pytest

from bench.relay import scene
from bench.relay.measure import RelayBench
from bench.relay.patterns import COUNT, policies
from bench.relay.process import Relay, run_agent, run_relay
from bench.relay.raw import PREFIX as RAW
from bench.session import Pace
from placet.desk import clock
from placet.ports.detector import Scannable
from placet.relay.detectors.regex import RegexDetector
from placet.relay.policy.policy import build_rule, parse_policy_file

Bench = tuple[RelayBench, Relay, str]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("relay-bench")
    with run_agent() as agent, run_relay(folder / "passing", agent) as relay:
        yield RelayBench(folder, agent, relay, Pace(rounds=1, seconds=1)), relay, agent


def post(url: str, body: bytes, key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "A2A-Version": "1.0"}
    return httpx.post(url, content=body, headers=headers, timeout=60)


def post_through_relay(relay: Relay, agent: str, body: bytes) -> httpx.Response:
    return post(f"{relay.url}/relay/v1/agents/{agent}", body, relay.keys[agent])


@pytest.mark.anyio
async def test_two_hundred_rules_look_and_only_the_secret_is_found() -> None:
    file = msgspec.json.encode({"policies": policies()})
    read = parse_policy_file(file, name="policies.json", is_toml=False, now=clock.now())
    detector = RegexDetector()
    prepared = detector.prepare([build_rule(one.config) for one in read])
    texts = [scene.ASKED, scene.ANSWERED, scene.SECRET]
    found = await prepared.scan([Scannable("text", text) for text in texts])
    await detector.aclose()
    assert len({one.name for one in read}) == len({one.policy_id for one in read}) == COUNT
    assert not found.unchecked
    assert [(match.piece, read[match.rule].name) for match in found.matches] == [(2, "us-social-security")]


def test_relay_raw_proxy_and_agent_give_the_same_answer(bench: Bench) -> None:
    _, relay, agent = bench
    direct = post(agent, scene.SEND, relay.keys[scene.JUDGED])
    raw = post(f"{relay.url}{RAW}", scene.SEND, relay.keys[scene.JUDGED])
    through = post_through_relay(relay, scene.JUDGED, scene.SEND)
    assert 700 < len(direct.content) < 900
    assert direct.json() == raw.json() == through.json()


def test_each_answer_of_the_fresh_agent_is_a_task_of_its_own(bench: Bench) -> None:
    _, relay, _ = bench
    ids = [
        post_through_relay(relay, scene.FRESH, scene.SEND).json()["result"]["task"]["id"] for _ in range(2)
    ]
    assert len(set(ids)) == 2


@pytest.mark.parametrize("agent", [scene.JUDGED, scene.PLAIN])
def test_a_stream_comes_through_with_all_its_events(bench: Bench, agent: str) -> None:
    _, relay, _ = bench
    raw = post(f"{relay.url}{RAW}", scene.STREAM, relay.keys[agent])
    through = post_through_relay(relay, agent, scene.STREAM)
    assert through.content == raw.content == b"".join(scene.events())


def test_what_is_to_be_held_is_held(bench: Bench) -> None:
    measuring, relay, _ = bench
    measuring.hold(relay, 10)
    assert relay.count_held() >= 10
    assert post_through_relay(relay, scene.JUDGED, scene.HELD).json()["result"]["task"]["metadata"][
        "relay_reason"
    ]


def test_a_row_is_a_ratio_of_neighbours(bench: Bench) -> None:
    measuring, _, _ = bench
    ratio, by_cpu, found = measuring.measure("relay_rate")
    assert found is not None
    assert ratio == found.ratio > 0
    assert by_cpu == found.cpu_ratio > 0
    assert found.broken == 0
