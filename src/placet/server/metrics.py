"""Metrics of a server in the Prometheus text format; counting costs one dictionary update."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from placet.cases.events import Event
from placet.ports.store_maintenance import OperationHealth

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Meter(Collector):
    """Counts events and requests of one server."""

    def __init__(
        self,
        *,
        open_streams: Callable[[], int],
        storage_health: Callable[[], Mapping[str, OperationHealth]] = dict,
        refused_by_quota: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._open_streams = open_streams
        self._storage_health = storage_health
        self._refused_by_quota = refused_by_quota
        self._events: Counter[str] = Counter()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, list[float]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count_events(self, events: Iterable[Event]) -> None:
        """Count events of cases."""
        for event in events:
            self._events[event.type] += 1

    def record_request(self, route: str, status: int, seconds: float) -> None:
        """Count one request and how long it took."""
        self._requests[route, status] += 1
        row = self._seconds.setdefault(route, [0.0] * (len(BUCKETS) + 2))
        row[bisect_left(BUCKETS, seconds)] += 1
        row[-1] += seconds

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics for the registry."""
        events = CounterMetricFamily("placet_events", "Events appended to cases.", labels=["event"])
        for name, count in sorted(self._events.items()):
            events.add_metric([name], count)
        yield events
        requests = CounterMetricFamily("placet_http_requests", "Requests served.", labels=["route", "status"])
        for (route, status), count in sorted(self._requests.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        yield self._collect_histogram()
        yield GaugeMetricFamily("placet_open_streams", "Event streams open now.", self._open_streams())
        yield from self._collect_storage()
        refused = CounterMetricFamily(
            "placet_quota_refused", "Requests refused because a quota was used up.", labels=["quota"]
        )
        for quota, count in sorted(self._refused_by_quota().items()):
            refused.add_metric([quota], count)
        yield refused

    def _collect_storage(self) -> Iterator[Metric]:
        labels = ["operation"]
        refused = CounterMetricFamily(
            "placet_storage_refused", "Reads and writes refused because the storage failed.", labels=labels
        )
        outage = GaugeMetricFamily(
            "placet_storage_outage", "1 while reads or writes fail, otherwise 0.", labels=labels
        )
        for operation, health in self._storage_health().items():
            refused.add_metric([operation], health.refused)
            outage.add_metric([operation], health.is_failing)
        yield refused
        yield outage

    def _collect_histogram(self) -> HistogramMetricFamily:
        seconds = HistogramMetricFamily(
            "placet_http_request_seconds", "How long requests took.", labels=["route"]
        )
        for route, row in sorted(self._seconds.items()):
            total, buckets = 0.0, []
            for bound, count in zip((*BUCKETS, float("inf")), row[:-1], strict=True):
                total += count
                buckets.append((str(bound) if bound != float("inf") else "+Inf", total))
            seconds.add_metric([route], buckets, row[-1])
        return seconds
