"""A time that the learner measured is compared with the trace."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpututor.checks.measurement import LAUNCHES_ONLY, Taken, copies, enclosed, launch_to_end, measurement, taken
from gpututor.checks.model import Call, Check, Run
from gpututor.errors import CourseError
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import GPU, failure, run_of

MILLISECOND = 1_000_000


def products(*spans: tuple[int, int], waits: tuple[int, ...] = ()) -> Trace:
    """Return a trace of matrix products (launch, end) and of waits that end at `waits`, in milliseconds."""
    events = [(launched, Kind.KERNEL, "aten::mm", end) for launched, end in spans]
    events += [(end - 1, Kind.SYNCHRONISE, "torch.cuda.synchronize", end) for end in waits]
    trace = Trace()
    for began, kind, name, end in sorted(events):
        start = began * MILLISECOND
        trace.add(kind, name, "cuda:0", launched=start, start=start, end=end * MILLISECOND)
    return trace


def check(**options: object) -> Check:
    return measurement(launch_to_end("aten::mm"), **options)  # type: ignore[arg-type]


WARMED_UP = products((0, 40), (50, 54), waits=(50, 54))


def reports(result: object, trace: Trace = WARMED_UP) -> Run:
    return run_of(result, trace=trace)


@pytest.mark.parametrize("seconds", [0.0037, 0.004, 0.0047])
def test_the_time_of_the_last_product_passes(seconds: float) -> None:
    assert check().find(reports(seconds)) is None


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.000_01, "idle"), (0.04, "Something else"), (4.0, "report seconds"), (0.0035, "idle")]
)
def test_wrong_times_fail_with_fitting_advice(seconds: float, words: str) -> None:
    finding = failure(check(), reports(seconds))
    assert "4.00 ms" in finding.expected
    assert words in finding.advice


def test_the_advice_names_a_clock_that_is_not_modelled() -> None:
    run = replace(reports(40.0), source="start = datetime.now()")

    assert "`datetime.now()`" in failure(check(), run).advice
    assert "`datetime.now()`" not in failure(check(), replace(run, machine=replace(GPU, virtual=False))).advice


@pytest.mark.parametrize("odd", [math.nan, math.inf, True, "0.004", None, [0.004], 10**1000, -(10**1000), 1e300])
def test_a_result_that_is_not_a_time_fails(odd: object) -> None:
    assert "such a number" in failure(check(), reports(odd)).got


def test_the_time_may_be_part_of_a_result_or_cover_several_kernels() -> None:
    by_part = check(part="gpu.1")
    assert by_part.find(reports({"gpu": [9.0, 0.004]})) is None
    assert by_part.find(reports({"gpu": [0.004]})) is not None
    of_two = measurement(launch_to_end("aten::mm", kernels=2))
    assert of_two.find(reports(0.027)) is None
    assert of_two.find(reports(0.004)) is not None


def test_copies_can_be_measured_and_the_range_is_wider_on_real_devices() -> None:
    trace = Trace()
    trace.add(Kind.TRANSFER, "aten::_to_copy", "cuda:0", source="cpu", target="cuda:0", launched=0, start=5, end=1000)
    trace.add(Kind.SYNCHRONISE, "aten::_to_copy", "cuda:0", launched=5, start=5, end=1000)
    assert measurement(copies("cpu", "cuda")).find(reports(1e-6, trace)) is None
    assert "none was done" in failure(measurement(copies("cuda", "cpu")), reports(1e-6, trace)).got
    real = replace(reports(0.005), machine=replace(GPU, virtual=False))
    assert check().find(real) is None
    assert check().find(reports(0.005)) is not None


@pytest.mark.parametrize(("seconds", "passes"), [(0.003, False), (0.004, True), (0.009, True), (0.013, False)])
def test_a_time_may_include_the_launch_and_the_wait(seconds: float, passes: bool) -> None:
    around = products((0, 40), (53, 57), waits=(50, 58))
    assert (check().find(reports(seconds, around)) is None) is passes
    step = products((0, 40), (53, 54), (56, 57), waits=(50, 58))
    by_products = measurement(lambda call: enclosed(call, list(call.trace)[-3:-1], 2))
    assert (by_products.find(reports(seconds, step)) is None) is passes


@pytest.mark.parametrize(("waits", "names_it"), [((), True), ((50,), False), ((50, 54), False)])
def test_a_missing_wait_is_named_only_if_the_trace_has_none(waits: tuple[int, ...], names_it: bool) -> None:
    too_short = failure(check(), reports(0.000_01, products((0, 40), (50, 54), waits=waits)))
    assert too_short.advice.startswith(LAUNCHES_ONLY) is names_it


def test_a_right_time_without_a_wait_fails() -> None:
    assert "a wait" in failure(check(), reports(0.004, products((0, 40), (50, 54), waits=(50,)))).expected
    asks = replace(reports(0.004, products((0, 40), (50, 54))), source="while not end.query():\n    pass\n")
    assert check().find(asks) is None


def test_work_that_seems_to_end_before_its_launch_may_take_any_time() -> None:
    trace = Trace()
    trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=500, start=480, end=490)
    trace.add(Kind.SYNCHRONISE, "torch.cuda.synchronize", "cuda:0", launched=600, start=600, end=9_000)
    real = replace(reports(8e-6, trace), machine=replace(GPU, virtual=False))
    assert check().find(real) is None
    assert check().find(replace(real, calls=reports(1e-3, trace).calls)) is not None


NEXT = products((0, 40), (50, 54), (55, 59), waits=(50, 60))
"""A trace of a product that nothing waits for before the next launch."""


@pytest.mark.parametrize(("source", "passes"), [("", False), ("start.elapsed_time(end)", True)])
def test_only_events_may_be_read_after_the_next_launch(source: str, passes: bool) -> None:
    first = measurement(lambda call: taken(call, list(call.trace)[2:3]))
    assert (first.find(replace(reports(0.004, NEXT), source=source)) is None) is passes


def test_work_that_has_ended_on_another_device_needs_no_wait() -> None:
    trace = Trace()
    for device, start, end in (("cuda:0", 50, 58), ("cuda:1", 51, 55)):
        launched = start * MILLISECOND
        trace.add(Kind.KERNEL, "aten::mm", device, launched=launched, start=launched, end=end * MILLISECOND)
    waited = 58 * MILLISECOND
    trace.add(Kind.SYNCHRONISE, "torch.cuda.synchronize", "cuda:0", launched=waited - 1, start=waited - 1, end=waited)
    both = measurement(lambda call: taken(call, list(call.trace)[:2]))
    assert both.find(reports(0.008, trace)) is None


def test_each_figure_of_a_list_is_compared() -> None:
    def truths(call: Call) -> list[Taken]:
        return [Taken(1.0, 1.0), Taken(2.0, 2.0, work="the large product")]

    of_both = measurement(truths, part="gpu")
    assert of_both.find(reports({"gpu": [1.0, 2.0]})) is None
    wrong = failure(of_both, reports({"gpu": [1.0, 1.0]}))
    assert "the large product" in wrong.expected
    assert "result['gpu'][1]" in wrong.got
    assert of_both.find(reports({"gpu": [1.0]})) is not None
    with pytest.raises(CourseError):
        measurement(lambda call: [Taken(2.0, 1.0)]).find(reports([1.0]))


def test_a_failing_truth_and_an_impossible_range_are_rejected() -> None:
    with pytest.raises(CourseError, match=r"checks\.py|truth failed"):
        measurement(lambda call: call.nothing).find(reports(1.0))  # type: ignore[attr-defined]
    with pytest.raises(CourseError, match="leaves out 1"):
        measurement(launch_to_end("aten::mm"), virtual=(2.0, 3.0))
