"""Two recorded calls beside each other: what they have in common, and what the pages of the comparison are given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpututor.app.widgets.device.view import RunView, first_view, load
from gpututor.plain_text import visible

if TYPE_CHECKING:
    from gpututor.trace.comparison import Amounts, Difference


@dataclass(frozen=True)
class Other:
    """Something that an attempt can be set beside."""

    words: str
    """`best, attempt 3`; `baseline.py`."""
    short: str
    """`attempt 3`"""
    view: RunView
    is_baseline: bool = False
    """The author's file: its lines are not shown."""


@dataclass(frozen=True)
class Pair:
    """The same case of two attempts."""

    left: RunView
    other: Other
    amounts: tuple[Amounts, Amounts] | None = None
    """None until the traces have been read."""

    @property
    def right(self) -> RunView:
        return self.other.view

    @property
    def same_inputs(self) -> bool:
        """Whether both got inputs of the same shapes; each grading draws its own."""
        return [one.words for one in self.left.case.calls] == [one.words for one in self.right.case.calls]

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        from gpututor.trace.comparison import differences

        return differences(*self.amounts) if self.amounts is not None else ()


def pair_of(left: RunView, other: Other) -> Pair | None:
    """The case of `left` and the same one of the other attempt; None where that has no such run or case."""
    runs = other.view.recording.runs
    number = next((at for at, run in enumerate(runs) if run.scenario == left.run.scenario), None)
    if number is None or not runs[number].calls:
        return None
    view = other.view.of_run(number)
    case = min(left.case_number, len(view.cases) - 1)
    return Pair(left, replace(other, view=view.of_case(case)))


def loaded(pair: Pair) -> Pair:
    """The same with the traces of both. For a thread."""
    from gpututor.trace.comparison import amounts_of

    views = [view if view.loaded is not None else load(view) for view in (pair.left, pair.right)]
    amounts = []
    for view in views:
        assert view.loaded is not None
        peak_bytes = max(call.peak_bytes for call in view.case.calls)
        elapsed = view.case.work_ns if view.run.times else 0
        amounts.append(amounts_of([one.rows for one in view.loaded.processes], elapsed, peak_bytes))
    left, right = views
    return Pair(left, replace(pair.other, view=right), (amounts[0], amounts[1]))


def baselines_of(view: RunView) -> Iterable[Other]:
    """The files that the checks compared the attempt with, as something to set it beside."""
    names = dict.fromkeys(one.name for run in view.recording.runs for one in run.baselines)
    for name in names:
        runs = []
        for run in view.recording.runs:
            calls = next((one.calls for one in run.baselines if one.name == name), ())
            runs.append(replace(run, calls=calls, baselines=(), lines=()))
        found = first_view(
            replace(view.recording, runs=tuple(runs)),
            attempt=view.attempt,
            title=view.title,
            file_name=name,
            source=None,
        )
        if found is not None:
            yield Other(f"{visible(name)}, which the checks compare with", visible(name), found, is_baseline=True)
