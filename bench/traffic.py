"""The requests of each row, written to files for wrk, with the bare counterpart of each."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import httpx
from msgspec import Struct

from bench.drafts import ANSWER_BODY, DRAFT, DRAFT_BODY
from bench.load import CONNECTIONS
from bench.measure import Traffic, TrafficOf, run
from bench.process import Server
from bench.stock import Stock, fill

WARM_UP = 15_000
SPARE = 2.5  # how many more cases are made ready than the first slice could answer
JSON = "Content-Type: application/json"

Answerable = list[str]  # lines of a path and a token


class Pair(Struct, frozen=True, kw_only=True):
    """Real traffic, its bare counterpart, and the only answers that may be given meanwhile."""

    real: TrafficOf
    bare: TrafficOf
    answers: frozenset[tuple[str, str]]


class Requests:
    """Makes the traffic of every row for one filled database."""

    def __init__(
        self, folder: Path, db: Path, stock: Stock, *, seconds: int, connections: int = CONNECTIONS
    ) -> None:
        self._seconds = seconds
        self._traffic = partial(Traffic, connections=connections)
        self._folder = folder
        self._db = db
        self._stock = stock
        self._bearer = f"Authorization: Bearer {stock.key}"
        self._draft = self._file("draft.json", DRAFT_BODY)
        self._answer = self._file("answer.json", ANSWER_BODY)

    def pair(self, row: str, server: Server) -> Pair:
        """The traffic of this row."""
        makers: dict[str, Callable[[Server], Pair]] = {
            "poll": lambda _: self._polls((), "200"),
            # An open case that nobody touched is at its first version.
            "not_modified": lambda _: self._polls(('If-None-Match: "1"',), "304"),
            "page": self._page,
            "create": lambda _: self._creations(),
            "respond": lambda server: self._answers_to(server, self._opened_here),
            "respond_cold": lambda server: self._answers_to(server, self._opened_elsewhere),
        }
        return makers[row](server)

    def _creations(self) -> Pair:
        def posts(path: str) -> TrafficOf:
            traffic = self._traffic(
                script="post", arguments=(path, self._draft), headers=(self._bearer, JSON)
            )
            return lambda number: traffic

        answers = frozenset({("/v1/cases", "202")})
        return Pair(real=posts("/v1/cases"), bare=posts("/bare/cases"), answers=answers)

    def _page(self, server: Server) -> Pair:
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
            answers=frozenset({("/review", "200")}),
        )

    def _polls(self, headers: Sequence[str], status: str) -> Pair:
        ids = [one.case_id for one in self._stock.open_cases]
        headers = (self._bearer, *headers)
        return Pair(
            real=self._gets("polls", [f"/v1/reviews/{id}/status" for id in ids], headers),
            bare=self._gets("bare-polls", [f"/bare/reviews/{id}/status" for id in ids], headers),
            answers=frozenset({("status", status)}),
        )

    def _answers_to(self, server: Server, ready: Callable[[Server, int], Answerable]) -> Pair:
        """Each request answers a case of its own under that case's own token."""
        first = ready(server, WARM_UP)
        rate = run(server, self._answers("answers", first), 1).load.per_second
        bare = self._answers("bare-answers", [f"/bare{line}" for line in first], again=True)

        each = int(rate * self._seconds * SPARE) + 500
        return Pair(
            real=lambda number: self._answers("answers", ready(server, each)),
            bare=lambda number: bare,
            answers=frozenset({("respond", "200"), ("/v1/cases", "202")}),
        )

    def _opened_here(self, server: Server, count: int) -> Answerable:
        """Cases that the server opened just now, the newest first, as in an inbox."""
        written = self._folder / "opened"
        opening = self._traffic(
            script="open",
            arguments=("/v1/cases", self._draft, str(written)),
            headers=(self._bearer, JSON),
        )
        lines: Answerable = []
        while len(lines) < count:
            run(server, opening, 1)
            *whole, _ = written.read_text().split("\n")
            lines += whole
        return lines[: -count - 1 : -1]

    def _opened_elsewhere(self, server: Server, count: int) -> Answerable:
        """Cases that another process opened just now: the server has yet to read them."""
        cases = fill(self._db, cases=count, known=count, all_open=True).open_cases
        return [f"/v1/reviews/{one.case_id}/respond {one.submit_token}" for one in cases]

    def _gets(self, name: str, paths: Sequence[str], headers: Sequence[str]) -> TrafficOf:
        listed = self._file(name, "".join(f"{path}\n" for path in paths).encode())
        traffic = self._traffic(script="get", arguments=(listed,), headers=headers)
        return lambda number: traffic

    def _answers(self, name: str, lines: Answerable, *, again: bool = False) -> Traffic:
        listed = self._file(name, "".join(f"{line}\n" for line in lines).encode())
        arguments = (listed, self._answer, *(["again"] if again else []))
        most = None if again else len(lines)
        return self._traffic(script="post_once", arguments=arguments, headers=(JSON,), most=most)

    def _file(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)
