"""Measures contestants by turns: whatever takes the processor or the disk away hits all of them alike."""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.figures import Cycle, Figure
from bench.hook import gate_command, importing, in_langchain, in_openai_agents, in_pydantic_ai, ours, waiting
from bench.hook.scene import AS_TEXT, LAST_WORDS, WITH_PLACET, Contestant, Setting
from bench.rows import HOOK_CALLS, HOOK_STORAGES, ROWS

SLICE_S = 0.03
WARM_UP = 5
ROUNDS_OF_ONE = 5
"""Slices of a contestant for each round that other rows get: these slices are shorter."""
FRAMEWORKS = {"langchain": in_langchain, "pydantic_ai": in_pydantic_ai, "openai_agents": in_openai_agents}
LOOP = "hook"
AWAITED = "hook_async"
KINDS = (LOOP, AWAITED, *(f"{LOOP}_{name}" for name in FRAMEWORKS))
"""What rows compare: our loop with the fastest framework, or an adapter with its framework."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one cycle took, on average of a short while: in milliseconds, of time and of the processor's."""

    wall: float
    cpu: float


Slices = dict[str, list[Slice]]
"""Contestant -> its slices, one for each round."""


def measure_hook(
    rows: Sequence[str], rounds: int, folder: Path, say: Callable[[str], None]
) -> tuple[list[Figure], list[Cycle]]:
    """The rows of tool approval, and what each contestant took."""
    figures: list[Figure] = []
    cycles: list[Cycle] = []
    for storage in HOOK_STORAGES:
        for calls in HOOK_CALLS:
            suffix = f"{storage}_{calls}"
            wanted = [row for row in rows if row.endswith(suffix)]
            if not wanted:
                continue
            with tempfile.TemporaryDirectory(prefix="hook-", dir=folder) as place:
                setting = Setting(calls=calls, folder=Path(place) if storage == "sqlite" else None)
                kinds = {row: row.removesuffix(f"_{suffix}") for row in wanted}
                with setting.cleanup:
                    found = _measure_slices(
                        list(list_contestants(setting, kinds.values())), rounds * ROUNDS_OF_ONE
                    )
            cycles.extend(_build_cycles(found, storage, calls))
            figures.extend(_build_figure(row, kind, found, say) for row, kind in kinds.items())
    if waits := [row for row in rows if row.startswith("hook_wait_")]:
        taken = waiting.measure(folder)
        figures.extend(
            _report_figure(Figure(row=row, stored=0, value=taken[row], bounded=True), say) for row in waits
        )
    processes: dict[str, Callable[[], Cycle]] = {
        "hook_import": importing.measure,
        "hook_gate": partial(gate_command.measure, folder),
    }
    for row, measure_process in processes.items():
        if row in rows:
            cycle = measure_process()
            cycles.append(cycle)
            took = cycle.cpu_ms
            figures.append(
                _report_figure(Figure(row=row, stored=0, value=took, by_cpu=took, bounded=True), say)
            )
    return figures, cycles


def _measure_slices(everyone: Sequence[Contestant], rounds: int) -> Slices:
    for contestant in everyone:
        for _ in range(WARM_UP):
            assert contestant.cycle() == LAST_WORDS, contestant.name
    gc.collect()
    gc.freeze()
    found: Slices = {contestant.name: [] for contestant in everyone}
    for number in range(rounds):
        # Rotate the order, so that no contestant always runs after the same one.
        first = number % len(everyone)
        for contestant in (*everyone[first:], *everyone[:first]):
            found[contestant.name].append(_measure_slice(contestant))
    gc.unfreeze()
    return found


def list_contestants(setting: Setting, kinds: Collection[str] = KINDS) -> Iterator[Contestant]:
    """Yield what rows of these kinds compare: our loop, frameworks with their own approval and with ours."""
    if LOOP in kinds or AWAITED in kinds:
        yield ours.agent(setting)
    if AWAITED in kinds:
        yield ours.awaited_agent(setting)
    for name, framework in FRAMEWORKS.items():
        adapts = f"{LOOP}_{name}" in kinds
        if adapts or LOOP in kinds:
            yield from framework.own(setting)
        if adapts:
            yield from framework.adapted(setting)


def _measure_slice(contestant: Contestant) -> Slice:
    cycles, began, used = 0, time.perf_counter(), time.process_time()
    while (passed := time.perf_counter() - began) < SLICE_S:
        contestant.cycle()
        cycles += 1
    return Slice(passed * 1000 / cycles, (time.process_time() - used) * 1000 / cycles)


def _build_figure(row: str, kind: str, found: Slices, say: Callable[[str], None]) -> Figure:
    if kind == LOOP:
        mine = found[ours.NAME]
        fastest = min((found[framework.NAME] for framework in FRAMEWORKS.values()), key=_median_wall_time)
        pairs = list(zip(fastest, mine, strict=True))
        value = statistics.median(theirs.wall / ours.wall for theirs, ours in pairs)
        by_cpu = statistics.median(theirs.cpu / ours.cpu for theirs, ours in pairs)
    elif kind == AWAITED:
        pairs = list(zip(found[ours.AWAITED_NAME], found[ours.NAME], strict=True))
        value = by_cpu = statistics.median(awaited.cpu / called.cpu for awaited, called in pairs)
    else:
        name = FRAMEWORKS[kind.removeprefix(f"{LOOP}_")].NAME
        # Ours can always go on in a new process; LangGraph's checkpointers can, too.
        own = found.get(f"{name}{AS_TEXT}", found[name])
        pairs = list(zip(found[f"{name}{WITH_PLACET}"], own, strict=True))
        value = by_cpu = statistics.median(adapted.cpu / plain.cpu for adapted, plain in pairs)
    return _report_figure(Figure(row=row, stored=0, value=value, by_cpu=by_cpu, bounded=True), say)


def _build_cycles(found: Slices, storage: str, calls: int) -> Iterator[Cycle]:
    for name, slices in found.items():
        cpu = statistics.median(one.cpu for one in slices)
        yield Cycle(name=name, storage=storage, calls=calls, wall_ms=_median_wall_time(slices), cpu_ms=cpu)


def _median_wall_time(slices: Sequence[Slice]) -> float:
    return statistics.median(one.wall for one in slices)


def _report_figure(figure: Figure, say: Callable[[str], None]) -> Figure:
    row = ROWS[figure.row]
    by_cpu = "" if figure.by_cpu is None else f", by CPU {figure.by_cpu:.2f}"
    say(f"  {row.title}: {figure.value:.2f} {row.unit}{by_cpu}")
    return figure
