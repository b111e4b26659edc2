"""The requests of each row, written to files for wrk, with the bare counterpart of each."""

from collections.abc import Sequence
from pathlib import Path

import httpx
from msgspec import Struct

from bench.drafts import ANSWER_BODY, DRAFT, DRAFT_BODY
from bench.measure import Traffic, TrafficOf, run
from bench.process import Server
from bench.stock import Openable, Stock, fill

WARM_UP = 15_000
SPARE = 1.6  # how many more cases are made ready than the rate of the first slice asks for


class Pair(Struct, frozen=True, kw_only=True):
    """Real traffic, its bare counterpart, and the only answer that the real one may get."""

    real: TrafficOf
    bare: TrafficOf
    answered: tuple[str, str]


class Requests:
    """Makes the traffic of every row for one filled database."""

    def __init__(self, folder: Path, db: Path, stock: Stock) -> None:
        self._folder = folder
        self._db = db
        self._stock = stock
        self._bearer = f"Authorization: Bearer {stock.key}"
        self._draft = self._file("draft.json", DRAFT_BODY)
        self._answer = self._file("answer.json", ANSWER_BODY)

    def poll(self) -> Pair:
        """Polls over many open cases."""
        return self._polls((), "200")

    def not_modified(self) -> Pair:
        """Polls by callers who have the newest version: an open case that nobody touched is at its first."""
        return self._polls(('If-None-Match: "1"',), "304")

    def create(self) -> Pair:
        """One draft again and again, each time a new case."""
        headers = (self._bearer, "Content-Type: application/json")

        def posts(path: str) -> TrafficOf:
            traffic = Traffic(script="post", arguments=(path, self._draft), headers=headers)
            return lambda number: traffic

        return Pair(real=posts("/v1/cases"), bare=posts("/bare/cases"), answered=("/v1/cases", "202"))

    def page(self, server: Server) -> Pair:
        """One person's review page; the link is exchanged for a session first."""
        with httpx.Client(base_url=server.url, timeout=30) as client:
            opened = client.post(
                "/v1/cases", json=DRAFT, headers={"Authorization": f"Bearer {self._stock.key}"}
            )
            entered = client.get(opened.json()["hitl"]["review_url"])
        headers = (f"Cookie: {entered.headers['set-cookie'].partition(';')[0]}",)
        path = entered.headers["location"].removeprefix(server.url)
        return Pair(
            real=self._gets("page", [path], headers),
            bare=self._gets("bare-page", [f"/bare{path}"], headers),
            answered=("/review", "200"),
        )

    def respond(self, server: Server, *, rounds: int, seconds: int) -> Pair:
        """Each request answers a case of its own under that case's own token."""
        first = self._answers("warm-up", self._fresh(WARM_UP))
        rate = run(server, first, 1).load.per_second
        each = int(rate * seconds * SPARE) + 100
        cases = self._fresh(each * rounds)
        slices = [
            self._answers(f"answers-{number}", cases[number * each : (number + 1) * each])
            for number in range(rounds)
        ]
        bare = self._answers("bare-answers", cases[:each], prefix="/bare", again=True)
        return Pair(real=lambda number: slices[number], bare=lambda number: bare, answered=("respond", "200"))

    def _polls(self, headers: Sequence[str], status: str) -> Pair:
        ids = [one.case_id for one in self._stock.open_cases]
        headers = (self._bearer, *headers)
        return Pair(
            real=self._gets("polls", [f"/v1/reviews/{id}/status" for id in ids], headers),
            bare=self._gets("bare-polls", [f"/bare/reviews/{id}/status" for id in ids], headers),
            answered=("status", status),
        )

    def _gets(self, name: str, paths: Sequence[str], headers: Sequence[str]) -> TrafficOf:
        listed = self._file(name, "".join(f"{path}\n" for path in paths).encode())
        traffic = Traffic(script="get", arguments=(listed,), headers=headers)
        return lambda number: traffic

    def _answers(
        self, name: str, cases: Sequence[Openable], *, prefix: str = "/v1", again: bool = False
    ) -> Traffic:
        lines = "".join(f"{prefix}/reviews/{one.case_id}/respond {one.submit_token}\n" for one in cases)
        arguments = (self._file(name, lines.encode()), self._answer, *(["again"] if again else []))
        return Traffic(script="post_once", arguments=arguments, headers=("Content-Type: application/json",))

    def _fresh(self, count: int) -> list[Openable]:
        """Cases opened just now, on top of those that are stored."""
        return fill(self._db, cases=count, known=count, all_open=True).open_cases

    def _file(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)
