"""What is measured, how good it has to be, and what keeps it from being better."""

from msgspec import Struct

GROWTH_BOUND = 1.3
STREAMS = 5_000
LISTENERS = 1_000
LATENCY_MS = 400
HOOK_CALLS = (1, 4)
RELAY_HELD = 10_000
HOOK_STORAGES = {"memory": "memory", "sqlite": "SQLite"}
HOOK_FRAMEWORKS = {
    "langchain": "LangChain",
    "pydantic_ai": "Pydantic AI",
    "openai_agents": "OpenAI Agents",
}


class Row(Struct, frozen=True, kw_only=True):
    """One line of the table. A ratio has a bound from below, a size one from above."""

    name: str
    title: str
    limit: str
    unit: str = "/s"
    at_least: float | None = None
    at_most: float | None = None
    digits: int = 1
    """Behind the point, where the table shows a size."""

    def holds(self, value: float) -> bool:
        """Whether the value is within the bound, if there is one."""
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is None or value <= self.at_most

    @property
    def bound(self) -> str:
        """The bound as the table shows it."""
        if self.at_least is not None:
            return f">= {self.at_least:.2f}"
        return "-" if self.at_most is None else f"<= {self.at_most:g}"


def _counted(calls: int) -> str:
    return "1 call" if calls == 1 else f"{calls} calls"


_OUR_LIMIT = {
    "memory": "Python: freezing the turn, then the JSON of every checkpoint",
    "sqlite": "the disk: three syncs for everyone (paused, decided, done); the rest is Python",
}
_OUR_BOUND = {"memory": 10.0, "sqlite": 8.0}
_ADAPTER_LIMIT = {
    "memory": "Python: freezing the turn, marking each call before and after, the framework's state as JSON",
    "sqlite": "Python: as in memory, and more writes than the framework's; beside LangGraph, two syncs more",
}
_RELAY_LIMIT = (
    "Python on one core: two halves of HTTP, reading and judging the message and its answer, a row of the "
    "audit"
)

ROWS = {
    row.name: row
    for row in (
        Row(
            name="streams",
            title=f"idle event stream, {STREAMS:,} open",
            unit="KiB",
            at_most=15.0,
            limit="memory: the connection's buffers and parser in uvicorn and uvloop, then one task and one "
            "stream object of ours",
        ),
        Row(
            name="fan_out",
            title=f"one event to {LISTENERS:,} streams, p99",
            unit="ms",
            limit="one core: each stream reads the log and writes to its own socket",
        ),
        Row(
            name="poll",
            title="poll 200",
            at_least=0.45,
            limit="Python on one core: the key's digest, a point read of SQLite, decoding the case, "
            "writing JSON",
        ),
        Row(
            name="not_modified",
            title="poll 304",
            at_least=0.50,
            limit="Python on one core: as a poll, but for writing JSON",
        ),
        Row(
            name="page",
            title="review page",
            limit="Python on one core: the templates",
        ),
        Row(
            name="create",
            title="create, durable",
            at_least=0.20,
            limit="Python on one core: validation, tokens and their digests, then the rows of a case, its "
            "offer and its first event; one sync of the disk serves all who wait",
        ),
        Row(
            name="respond",
            title="inline respond, durable, signed",
            at_least=0.20,
            limit="Python on one core: judging the answer, then the rows of the case and its event; the "
            "signatures are made in a process apart, and one sync of the disk serves all who wait",
        ),
        Row(
            name="respond_cold",
            title="the same, to cases not in memory",
            limit="as above, and reading the case: each commit makes the reading connection forget its pages",
        ),
        *(
            Row(
                name=name,
                title=f"{title}, against an almost empty page",
                unit="×",
                at_most=25.0,
                limit="Python on one core: every value is made visible, escaped and laid out",
            )
            for name, title in {
                "page_options": "page with 500 options",
                "page_text": "page with 1 MB of text",
                "page_markdown": "page with 1 MB of Markdown",
                "page_json": "page with 1 MB of JSON",
            }.items()
        ),
        Row(
            name="page_turn",
            title="longest turn of the loop beside such pages, in ordinary ones",
            unit="×",
            at_most=25.0,
            limit="one loop: work that is not handed to a thread runs to its end",
        ),
        Row(
            name="page_polls",
            title="p99 of polls beside such pages, against polls alone",
            unit="×",
            limit="one interpreter: rendering a page takes turns with all other work",
        ),
        Row(
            name="page_trips",
            title="from a link to a usable page, beyond a blank one",
            unit="round trips",
            at_most=2.0,
            limit="the link's redirect: the page carries its style",
        ),
        Row(
            name="page_usable",
            title=f"until usable at {LATENCY_MS} ms and 1.6 Mbit/s, beyond a blank one",
            unit="round trips",
            at_most=2.0,
            limit="the bytes of the page and of the style in it",
        ),
        *(
            Row(
                name=f"hook_{storage}_{calls}",
                title=f"tool approval, {_counted(calls)}, {kept}, against the fastest framework",
                unit="×",
                at_least=_OUR_BOUND[storage],
                limit=_OUR_LIMIT[storage],
            )
            for storage, kept in HOOK_STORAGES.items()
            for calls in HOOK_CALLS
        ),
        *(
            Row(
                name=f"hook_async_{storage}_{calls}",
                title=f"the agent awaited, {_counted(calls)}, {kept}, against called: processor's time",
                unit="×",
                at_most=1.6 if storage == "sqlite" else None,
                limit="Python: a task for each call; in SQLite a thread for each write, so the loop is free",
            )
            for storage, kept in HOOK_STORAGES.items()
            for calls in HOOK_CALLS
        ),
        *(
            Row(
                name=f"hook_{framework}_{storage}_{calls}",
                title=f"our approval in {title}, {_counted(calls)}, {kept}, against its own, by CPU",
                unit="×",
                at_most=1.15,
                limit=_ADAPTER_LIMIT[storage],
            )
            for framework, title in HOOK_FRAMEWORKS.items()
            for storage, kept in HOOK_STORAGES.items()
            for calls in HOOK_CALLS
        ),
        Row(
            name="hook_import",
            title="import of placet.hook, processor's time",
            unit="ms",
            at_most=60.0,
            limit="the standard library, inspect and dataclasses first, then making classes of our own",
        ),
        Row(
            name="hook_gate",
            title="a call that the policy of placet gate allows, start included, processor's time",
            unit="ms",
            at_most=120.0,
            limit="starting Python, and importing click and msgspec",
        ),
        *(
            Row(
                name=f"hook_wait_{name}",
                title=f"from a decision on a server to the start of the call, {title}, p50",
                unit="ms",
                at_most=50.0,
                limit="the answer's sync on disk, an event to the stream, a poll, and the thread's claim",
            )
            for name, title in (("agent", "an agent that waits"), ("function", "a function that waits"))
        ),
        Row(
            name="relay_added",
            title="what the relay adds to a call, 200 rules each way, p50",
            unit="ms",
            at_most=0.45,
            digits=2,
            limit="Python on one core, twice: the server's half of HTTP, the client's half, and between them "
            "the call itself",
        ),
        Row(
            name="relay_rate",
            title="calls relayed, 200 rules each way, against a raw proxy",
            at_least=0.60,
            limit=_RELAY_LIMIT,
        ),
        Row(
            name="relay_fresh",
            title="the same, each answered with a new task",
            limit="as above, and a row for each task",
        ),
        Row(
            name="relay_stream",
            title="events of streams relayed, against a raw proxy",
            at_least=0.70,
            limit="Python on one core: what comes together is passed on together, and kept for the audit",
        ),
        Row(
            name="relay_stream_judged",
            title="the same, 200 rules behind a window",
            at_least=0.35,
            limit="Python on one core: each event is recognised by its bytes, inspected behind a window, and "
            "all of them once more at the end",
        ),
        Row(
            name="relay_first_word",
            title="first word of a stream later than from the agent, a word every 50 ms, 200 rules",
            unit="ms",
            at_most=150.0,
            limit="a word leaves when the next word shows that it is not the beginning of an encoding",
        ),
        Row(
            name="relay_held",
            title=f"calls relayed beside {RELAY_HELD:,} held messages, against none held",
            at_least=0.90,
            limit=_RELAY_LIMIT,
        ),
    )
}
PAGE_ROWS = tuple(name for name in ROWS if name.startswith("page_"))
HOOK_ROWS = tuple(name for name in ROWS if name.startswith("hook_"))
RELAY_ROWS = tuple(name for name in ROWS if name.startswith("relay_"))
# Several rows under one name.
GROUPS = {
    "pages": PAGE_ROWS,
    "hook": HOOK_ROWS,
    **{f"hook_{name}": tuple(row for row in HOOK_ROWS if name in row) for name in HOOK_FRAMEWORKS},
    "relay": RELAY_ROWS,
}
