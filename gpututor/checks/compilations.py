"""Compilations: the graphs that `torch.compile` compiles in a call, and the graph breaks that end them."""

from __future__ import annotations

from gpututor.checks.bounds import Amount, describe_lines, format_bounds, line_with_most, parse_bounds
from gpututor.checks.model import Applies, Call, Check, Finding, Run, count, in_each_call, on_virtual_gpu
from gpututor.errors import CourseError
from gpututor.trace.events import COMPILES, GRAPH_BREAK, RECOMPILES, Event, Kind

WHY = "Compiling a graph takes a second or so; a call of compiled code takes microseconds."
ADVICE = "`gpututor trace` shows each compilation, and the reason for each graph break and each repeated compilation."


def compilations(
    in_all: Amount | None = None,
    *,
    breaks: Amount | None = None,
    name: str = "compilations",
    why: str = WHY,
    advice: str = ADVICE,
    on: Applies = on_virtual_gpu,
) -> Check:
    """Check the number of graphs that each call compiles, and the number of graph breaks in compiled code.

    An amount is exact, (low, high), or a function of (drawn, machine). A graph for other shapes counts again. Raises
    `CourseError` if there is nothing to count.
    """
    if in_all is None and breaks is None:
        raise CourseError(f"check {name!r}: nothing to count", "In checks.py, give it in_all=… or breaks=….")

    def find(run: Run, call: Call) -> Finding | None:
        if breaks is not None and (finding := _breaks(run, call, parse_bounds(breaks, call, run.machine, name))):
            return finding
        return None if in_all is None else _graphs(run, call, parse_bounds(in_all, call, run.machine, name))

    sentence = "Graphs are compiled as often as the work needs, and no more"
    if in_all is None:
        sentence = "Compiled code has no graph breaks" if breaks == 0 else "Compiled code has few graph breaks"
    return Check(name, lambda _: sentence, in_each_call(find), (), why, advice, on)


def _breaks(run: Run, call: Call, bounds: tuple[int, int]) -> Finding | None:
    """Return a finding for graph breaks. A line counts each time that a graph is compiled up to it."""
    events = _ranges(call, GRAPH_BREAK)
    if bounds[0] <= len(events) <= bounds[1]:
        return None
    got = f"{count(len(events), 'graph break')}, {_reasons(events, GRAPH_BREAK)}" if events else "none"
    return run.finding(call, f"{_amount(bounds, 'graph break')} in a call", got, events[0].line if events else None)


def _graphs(run: Run, call: Call, bounds: tuple[int, int]) -> Finding | None:
    events = _ranges(call, COMPILES)
    if bounds[0] <= len(events) <= bounds[1]:
        return None
    again = _ranges(call, RECOMPILES)
    got = f"{count(len(events), 'compiled graph')}, {describe_lines(events)}" if events else "none: nothing compiles"
    if again:
        got += f"; again because of {_reasons(again, RECOMPILES)}"
    return run.finding(call, f"{_amount(bounds, 'compiled graph')} in a call", got, line_with_most(again or events))


def _ranges(call: Call, prefix: str) -> list[Event]:
    return [event for event in call.trace if event.kind is Kind.RANGE and event.name.startswith(prefix)]


def _amount(bounds: tuple[int, int], word: str) -> str:
    low, high = bounds
    return f"no {word}" if high == 0 else format_bounds(low, high, word)


def _reasons(events: list[Event], prefix: str, most: int = 3) -> str:
    """Return `line 7 (Data-dependent branching) and line 9 (…)`: the first lines with their first reasons."""
    reasons: dict[int | None, str] = {}
    for event in events:
        reasons.setdefault(event.line, event.name.removeprefix(prefix))
    named = [f"{f'line {line}' if line else 'a line outside your file'} ({text})" for line, text in reasons.items()]
    return ", ".join(named[:most]) + (", …" if len(named) > most else "")
