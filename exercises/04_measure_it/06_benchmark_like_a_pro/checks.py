"""Medians by the trace, the fastest by the medians, and a table that holds all of them."""

from __future__ import annotations

import re
from typing import Any

import torch

from gpututor.checks import Call, Check, Finding, Machine, Run, structure
from gpututor.trace.events import Kind

LAST_KERNEL = {"mul, sum": "aten::sum", "bmm": "aten::bmm", "mm": "aten::mm"}
"""The last kernel of each way, by its name."""
LOW, HIGH = 0.9, 1.25
"""The learner's figure over the trace's, on the virtual GPU: launching the first and waiting for the last add to it."""
REAL_LOW, REAL_HIGH = 0.5, 2.0
UNITS = {"seconds (s)": 1.0, "milliseconds (ms)": 1e-3, "microseconds (us)": 1e-6, "nanoseconds (ns)": 1e-9}
ROUNDING = 0.1
"""Allowed relative error of a figure in the table, which is rounded and may be trimmed."""

Pairs = list[tuple[torch.Tensor, torch.Tensor]]


def reference(ways: dict[str, str], pairs: Pairs, number: int) -> dict[str, Any]:
    """Values of the right types and lengths; other checks compare the content."""
    return {
        "seconds": {name: [0.0] * len(pairs) for name in ways},
        "fastest": [""] * len(pairs),
        "table": "",
    }


def size_of(name: str, rows: int, columns: int) -> int:
    """Bytes of inputs and output of a way's last kernel, which identify its pair."""
    inner = rows * columns
    elements = {"mul, sum": inner + rows, "bmm": 2 * inner + rows, "mm": 2 * inner + rows * rows}
    return 4 * elements[name]


def seconds_for_a_run(call: Call, name: str, x: torch.Tensor) -> float | None:
    """Seconds from the end of one run to the end of the next, in the last runs of this way on this pair.

    A timer's runs follow each other without a wait: fewer of them are warm-ups, or checks of the values.
    """
    wanted, number = size_of(name, *x.shape), call.drawn["number"]
    parts: list[list[float]] = [[]]
    for event in call.trace:
        if event.kind is Kind.SYNCHRONISE:
            parts.append([])
        elif event.name == LAST_KERNEL[name] and event.size_bytes == wanted and event.device != "cpu":
            parts[-1].append(event.end / 1e9)
    timed = [ends for ends in parts if len(ends) >= number] or [[end for ends in parts for end in ends]]
    ends = [end for end in timed[-1][-number:] if end >= 0]
    return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else None


def wrong_seconds(run: Run) -> Finding | None:
    """The first median that is not what the trace says."""
    low, high = (LOW, HIGH) if run.machine.virtual else (REAL_LOW, REAL_HIGH)
    for call in run.calls:
        for name in call.drawn["ways"]:
            for position, (x, _) in enumerate(call.drawn["pairs"]):
                reported = call.output["seconds"][name][position]
                where = f"of {name!r} for {x.shape[0]} x {x.shape[1]}{run.which(call)}"
                took = seconds_for_a_run(call, name, x)
                if took is None:
                    return Finding(f"several runs {where}", "there are none", run.line_of(call))
                if not low * took <= reported <= high * took:
                    got = f"result['seconds'][{name!r}][{position}] says {reported * 1e6:.4g} µs"
                    label = "modelled" if run.machine.virtual else "measured"
                    expected = f"about {took * 1e6:.4g} µs ({label}) for a run {where}"
                    return Finding(expected, got, run.line_of(call))
    return None


def wrong_names(run: Run) -> Finding | None:
    """A name whose median is not the smallest."""
    for call in run.calls:
        seconds = call.output["seconds"]
        wanted = [min(seconds, key=lambda name: seconds[name][pair]) for pair in range(len(call.drawn["pairs"]))]
        if call.output["fastest"] != wanted:
            got = f"result['fastest'] is {call.output['fastest']}{run.which(call)}"
            return Finding(f"{wanted}, by the medians in the result", got, run.line_of(call))
    return None


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]


def read(table: str) -> tuple[list[str], dict[str, list[str]], float]:
    """Columns, rows and unit of a table of `benchmark.Compare`, perhaps in color; empty if `table` is no such table."""
    table = re.sub(r"\x1b\[\d+m", "", table)
    lines = [cells(line) for line in table.splitlines() if "|" in line]
    unit = next((scale for words, scale in UNITS.items() if words in table), 0.0)
    if not lines:
        return [], {}, unit
    return lines[0][1:], {line[0]: line[1:] for line in lines[1:]}, unit


def wrong_table(run: Run) -> Finding | None:
    """A table without a column, a row, or a figure of the medians."""
    for call in run.calls:
        columns, rows, unit = read(call.output["table"])
        which, line = run.which(call), run.line_of(call)
        if "[" not in call.output["table"] or "row products" not in call.output["table"]:
            return Finding("a table with the title 'row products'", f"result['table'] has none{which}", line)
        if sorted(columns) != sorted(call.drawn["ways"]):
            return Finding(f"columns {sorted(call.drawn['ways'])}", f"columns {sorted(columns)[:8]}{which}", line)
        wanted = [f"{x.shape[0]} x {x.shape[1]}" for x, _ in call.drawn["pairs"]]
        if sorted(rows) != sorted(wanted):
            return Finding(f"rows {sorted(wanted)}", f"rows {sorted(rows)[:8]}{which}", line)
        for position, row in enumerate(wanted):
            for name, cell in zip(columns, rows[row], strict=False):
                reported = call.output["seconds"][name][position]
                shown = float(cell) * unit if cell.replace(".", "", 1).isdigit() else 0.0
                if abs(shown - reported) > ROUNDING * reported:
                    expected = f"{reported * 1e6:.4g} µs in row {row!r}, column {name!r}"
                    return Finding(expected, f"{cell[:20]!r} is in that cell{which}", line)
    return None


def has_gpu(machine: Machine) -> bool:
    return machine.device != "cpu"


checks = [
    structure(
        reference,
        why="A time means nothing without the statement and the size that it belongs to.",
        advice="For each way a list with one median for each pair; one name for each pair; str() of the comparison.",
    ),
    Check(
        "seconds",
        lambda machine: "Its medians match the time of a run",
        wrong_seconds,
        needs=("structure",),
        why="A benchmark of a GPU has to warm up, to let runs follow each other, and to wait for the last one.",
        advice="timer.timeit(number).median, of a Timer whose globals hold this pair as x and y.",
        on=has_gpu,
        kind="values",
    ),
    Check(
        "fastest",
        lambda machine: "It names the fastest way for each pair",
        wrong_names,
        needs=("structure",),
        why="Which way is fast depends on the size: that is why there is more than one row.",
        advice="For each pair, the name whose median is the smallest.",
    ),
    Check(
        "table",
        lambda machine: "Its table has a row for each pair and a column for each way",
        wrong_table,
        needs=("structure",),
        why="Compare groups by label, and makes rows by sub_label and columns by description.",
        advice="Give each Timer label, sub_label and description, and put all measurements into one Compare.",
    ),
]
