"""What the learner's file printed, and other long texts: a bounded piece in the pane, the whole elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.widget import Widget

from gpututor.app.widgets.plain import PlainText
from gpututor.grading.report import Report, RunSummary, Verdict
from gpututor.grading.words import mark, outcome_line, remarks

SHOWN_LINES = 200
"""Of printed text, in the pane."""
SHOWN_WIDTH = 1000
"""Characters of a line."""
DETAIL_LINES = 12
"""Of what a check says."""
DETAIL_CHARACTERS = 700


class Section(NamedTuple):
    """A part of a long text."""

    heading: str
    text: str


def bounded(text: str, most_lines: int, most_characters: int) -> str:
    """The text, or its beginning and how much more there is."""
    lines = text.splitlines()
    shown = "\n".join(lines[:most_lines])
    if len(shown) > most_characters:
        rest = len(text) - most_characters
        return f"{shown[:most_characters]}… {rest:,} more characters: v shows all"
    if len(lines) > most_lines:
        return f"{shown}\n… {len(lines) - most_lines:,} more lines: v shows all"
    return text


def output_blocks(report: Report) -> list[Widget]:
    """What stands below the checks: why there are none, where the file stopped, what it printed."""
    blocks: list[Widget] = []
    for text in remarks(report):
        blocks.append(PlainText(text, classes="reason"))
    for heading, text in _outputs(report, most_lines=SHOWN_LINES):
        blocks.append(PlainText(heading, classes="heading"))
        blocks.append(PlainText(text, classes="output"))
    return blocks


def everything(report: Report) -> list[Section]:
    """All that a run said, a section for each check in the order of the verdicts, then what was printed."""
    first = "\n".join(remarks(report))
    several = len({verdict.scenario for verdict in report.verdicts}) > 1
    checks = [_check(verdict, several) for verdict in report.verdicts]
    return [Section(outcome_line(report), first), *checks, *_outputs(report, most_lines=None)]


def details_of(verdict: Verdict, source_lines: Sequence[str] = ()) -> list[tuple[str, str]]:
    """(label, text) of what a check says beyond its sentence. `source_lines`: those of the text, where it is known."""
    line = "" if verdict.line is None else f"{verdict.line}"
    if verdict.line is not None and 0 < verdict.line <= len(source_lines):
        line = f"{line}  {source_lines[verdict.line - 1].strip()}".rstrip()
    details = [
        ("Expected", verdict.expected),
        ("Got", verdict.got),
        ("Line", line),
        ("Why", verdict.why),
        ("Try", verdict.advice),
    ]
    return [(label, text) for label, text in details if text] if verdict.status.is_finding else []


def _check(verdict: Verdict, several: bool) -> Section:
    where = f" ({verdict.scenario})" if several else ""
    texts = [("Figures", verdict.measured)] if verdict.measured else []
    parts = [f"{label}\n{_indented(text)}" for label, text in texts + details_of(verdict)]
    return Section(f"{mark(verdict.status)}  {verdict.sentence}{where}", "\n".join(parts))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _outputs(report: Report, most_lines: int | None) -> Iterator[Section]:
    for run in report.runs:
        where = f" ({run.scenario})" if len(report.runs) > 1 else ""
        if run.traceback:
            yield Section(f"Where it stopped{where}", run.traceback.rstrip())
        if run.output:
            yield Section(f"What your file printed{where}", printed(run, most_lines))


def printed(run: RunSummary, most_lines: int | None = SHOWN_LINES) -> str:
    """The printed text; with `most_lines` cut to what a person would scroll through."""
    lines = run.output.splitlines()
    shown = [line.expandtabs(4) for line in lines[:most_lines]]
    if most_lines is not None:
        shown = [line if len(line) <= SHOWN_WIDTH else f"{line[:SHOWN_WIDTH]}… v shows all" for line in shown]
        if len(lines) > most_lines:
            shown.append(f"… {len(lines) - most_lines:,} more lines: v shows all")
    if run.output_dropped_bytes:
        shown.append(f"… {run.output_dropped_bytes:,} more bytes were not kept")
    return "\n".join(shown)
