"""The relay's rows: what it adds to a call, and what is left of the rate of a proxy that looks at nothing."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
from msgspec.structs import replace

from bench.figures import Figure, has_bound
from bench.load import drive
from bench.measure import Comparison, Slice, Traffic, compare, run, summarize_slices
from bench.relay.process import Relay, run_agent, run_relay
from bench.relay.scene import EVENTS, FRESH, FRESH_PATH, JUDGED, PACED, PACED_PATH, PLAIN, STREAM
from bench.relay.traffic import Requests
from bench.rows import RELAY_HELD, ROWS
from bench.session import Pace
from placet.relay.route_addresses import AGENT_PROXY

Say = Callable[[str], None]

MAX_IDLE_RUNS = 30
"""On a slow machine, a run of a second may end before its first message is held."""


def measure_relay(rows: Sequence[str], pace: Pace, folder: Path, say: Say) -> list[Figure]:
    """These rows, on databases in this folder that are removed at once afterwards."""
    place = Path(tempfile.mkdtemp(prefix="relay-", dir=folder))
    try:
        with run_agent() as agent, run_relay(place / "passing", agent) as relay:
            bench = RelayBench(place, agent, relay, pace)
            return [_report_figure(_build_figure(name, *bench.measure(name)), say) for name in rows]
    finally:
        shutil.rmtree(place)


class RelayBench:
    """Measures one row after the other on one server."""

    def __init__(self, folder: Path, agent: str, relay: Relay, pace: Pace) -> None:
        self._folder = folder
        self._agent = agent
        self._relay = relay
        self._pace = pace
        self._requests = Requests(folder / "requests")

    def measure(self, row: str) -> tuple[float, float | None, Comparison | None]:
        """The row's value, the same by the processor's time, and the comparison it comes from."""
        if row == "relay_added":
            return (*self._measure_added_latency(), None)
        if row == "relay_first_word":
            return self._measure_first_word(), None, None
        found = self._compare_row(row)
        return found.ratio, found.cpu_ratio, found

    def _compare_row(self, row: str) -> Comparison:
        relay, requests = self._relay, self._requests
        if row == "relay_held":
            return self._compare_with_held_messages()
        if row == "relay_fresh":
            real = requests.send_through_relay(relay, FRESH, connections=self._pace.connections)
            return self._compare_alternating(
                real, requests.send_through_raw_proxy(relay, FRESH_PATH, connections=self._pace.connections)
            )
        if row in ("relay_stream", "relay_stream_judged"):
            real = requests.stream_through_relay(relay, PLAIN if row == "relay_stream" else JUDGED)
            return _convert_to_events(
                self._compare_alternating(real, requests.stream_through_raw_proxy(relay))
            )
        real = requests.send_through_relay(relay, JUDGED, connections=self._pace.connections)
        return self._compare_alternating(
            real, requests.send_through_raw_proxy(relay, connections=self._pace.connections)
        )

    def _compare_alternating(self, real: Traffic, raw: Traffic) -> Comparison:
        for traffic in (real, raw):
            run(self._relay, traffic, 1)
        pace = self._pace
        return compare(self._relay, lambda _: real, lambda _: raw, rounds=pace.rounds, seconds=pace.seconds)

    def _measure_added_latency(self) -> tuple[float, float]:
        """What one caller waits longer than it would for the agent itself; and what the relay computes."""
        through = self._requests.send_through_relay(self._relay, JUDGED, connections=1)
        direct = self._requests.send_directly(self._relay)
        run(self._relay, through, 1)
        added, spent = [], []
        for _ in range(self._pace.rounds):
            one = run(self._relay, through, self._pace.seconds)
            other = drive(
                self._agent,
                direct.script,
                direct.arguments,
                headers=direct.headers,
                seconds=self._pace.seconds,
                connections=direct.connections,
            )
            added.append(one.load.p50_ms - other.p50_ms)
            spent.append(one.cpu_us / 1000)
        return statistics.median(added), statistics.median(spent)

    def _measure_first_word(self) -> float:
        """How many milliseconds later a caller gets the first word than it would from the agent itself."""
        through, direct = f"{self._relay.url}{AGENT_PROXY}{PACED}", f"{self._agent}{PACED_PATH}"
        headers = {"Authorization": f"Bearer {self._relay.keys[PACED]}", "A2A-Version": "1.0"}
        with httpx.Client(headers=headers, timeout=30) as client:
            _time_first_word(client, through)
            later = [
                _time_first_word(client, through) - _time_first_word(client, direct)
                for _ in range(3 * self._pace.rounds)
            ]
        return 1000 * statistics.median(later)

    def _compare_with_held_messages(self) -> Comparison:
        """Two servers by turns: this one, and one in which messages wait for a person."""
        with run_relay(self._folder / "held", self._agent) as waiting:
            self.hold(waiting, RELAY_HELD)
            pairs = [
                (self._measure_passing_messages(waiting), self._measure_passing_messages(self._relay))
                for _ in range(self._pace.rounds + 1)
            ]
        return summarize_slices(pairs[1:])

    def _measure_passing_messages(self, relay: Relay) -> Slice:
        return run(
            relay,
            self._requests.send_through_relay(relay, JUDGED, connections=self._pace.connections),
            self._pace.seconds,
        )

    def hold(self, relay: Relay, count: int) -> None:
        """Have at least so many messages held; raises RuntimeError if they are not."""
        number = held = idle = 0
        while held < count:
            number += 1
            load = run(relay, self._requests.send_held_messages(relay, number), 1).load
            if load.failed + load.refused:
                raise RuntimeError(f"{load.failed + load.refused} messages could not be held.")
            before, held = held, relay.count_held()
            idle = idle + 1 if held == before else 0
            if idle == MAX_IDLE_RUNS:
                raise RuntimeError(f"No more than {held:,} messages are held.")


def _time_first_word(client: httpx.Client, url: str) -> float:
    """Seconds until the first word of a stream has come."""
    began = time.perf_counter()
    with client.stream("POST", url, content=STREAM, headers={"Content-Type": "application/json"}) as response:
        next(line for line in response.iter_lines() if "artifactUpdate" in line)
        return time.perf_counter() - began


def _convert_to_events(found: Comparison) -> Comparison:
    """A comparison of streams as one of their events."""
    return replace(
        found,
        per_second=found.per_second * EVENTS,
        bare_per_second=found.bare_per_second * EVENTS,
        cpu_us=found.cpu_us / EVENTS,
        bare_cpu_us=found.bare_cpu_us / EVENTS,
    )


def _build_figure(name: str, value: float, by_cpu: float | None, found: Comparison | None) -> Figure:
    trouble = None
    if found is not None and found.broken:
        trouble = f"{found.broken} requests failed or were refused"
    return Figure(
        row=name,
        stored=0,
        value=value,
        bounded=has_bound(ROWS[name]),
        comparison=found,
        by_cpu=by_cpu,
        trouble=trouble,
    )


def _report_figure(figure: Figure, say: Say) -> Figure:
    row, found = ROWS[figure.row], figure.comparison
    if found is None:
        say(f"  {row.title}: {figure.value:.2f} {row.unit}")
    else:
        say(f"  {row.title}: {found.per_second:,.0f}/s, {figure.value:.2f}, by CPU {found.cpu_ratio:.2f}")
    return figure
