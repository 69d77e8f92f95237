"""Each rule of advice: a program that matches it, and a similar program that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import methodcaller

import pytest

from gpututor.trace.advice import collect_advice
from gpututor.trace.advice_rules import RULES, Advice, Rates, Rule
from gpututor.trace.arrays import Place, TraceArrays
from gpututor.trace.columns import Trace
from gpututor.trace.events import COMPILES, GRAPH_BREAK, RECOMPILES, REGION, UNCOMPILED, Kind
from gpututor.trace.formatting import duration, share
from gpututor.trace.summary import summary
from tests.support.traces import FILE, MS, US, Program

T4 = {"cuda:0": Rates(float32=8e12, tensor=65e12)}
READ = "aten::_local_scalar_dense"
Step = Callable[[Program], object]


def steps(*parts: Step, times: int = 1) -> Step:
    """Return a program that repeats its parts."""

    def write(program: Program) -> None:
        for _ in range(times):
            for part in parts:
                part(program)

    return write


kernel, copy, wait, read, compute, allocate, out_of_memory = (
    partial(methodcaller, name) for name in ("kernel", "copy", "wait", "read", "compute", "allocate", "out_of_memory")
)
BATCH = 8 << 20
batch, pinned = copy(3, 2 * MS, BATCH), copy(3, 2 * MS, BATCH, asynchronous=True, stream=1)
step, launched = kernel(4, 2 * MS), kernel(4, 10 * US, launch=8 * US)

item_in_a_loop = steps(steps(launched, times=10), wait(5, READ), times=20)
item_after_the_loop = steps(steps(launched, times=200), wait(5, READ))
# The device always has work: the waiting host loses nothing.
item_in_a_loop_of_long_kernels = steps(kernel(4, 10 * MS), wait(5, READ), times=20)
pageable_batches = steps(batch, step, times=10)
pinned_batches_on_another_stream = steps(pinned, steps(pinned, step, times=10))
pageable_data_once = steps(batch, steps(step, times=10))
pinned_batches_on_the_kernels_stream = steps(copy(3, 2 * MS, BATCH, asynchronous=True), step, times=10)
batches_made_on_the_cpu = steps(compute(3, 3 * MS, name="aten::randn", size_bytes=BATCH), batch, step, times=10)
batches_with_little_noise = steps(compute(3, 3 * MS, name="aten::randn", size_bytes=1 << 10), batch, step, times=10)
numbers_one_by_one = steps(steps(copy(3, 10 * US, 4), times=100), kernel(4, MS))
a_model_moved = steps(steps(copy(3, 10 * US, 16384), copy(3, 10 * US, 256), times=50), kernel(4, MS))
a_state_loaded = steps(
    steps(copy(3, 10 * US, 16384, name="aten::copy_"), copy(3, 10 * US, 256, name="aten::copy_"), times=50),
    kernel(4, MS),
)
numbers_at_once = steps(copy(3, 11 * US, 400), kernel(4, MS))
tiny_kernels = steps(kernel(4, 2 * US, launch=6 * US), times=500)
tiny_foreach_kernels = steps(kernel(4, 2 * US, launch=6 * US, name="aten::_foreach_add_"), times=500)
item_of_tiny_kernels = steps(
    kernel(4, 2 * US, launch=6 * US), kernel(4, 2 * US, launch=6 * US), read(4, 8 * US, launch=10 * US), times=200
)
large_kernels = steps(kernel(4, 20 * US, launch=6 * US), times=500)
tiny_kernels_during_host_work = steps(compute(3, 20 * US), kernel(4, 19 * US, launch=0), times=500)
weights_again = steps(copy(3, MS, BATCH), steps(copy(4, MS, BATCH, partner=0), kernel(5, 3 * MS), times=5))
batches_that_differ = steps(copy(3, MS, BATCH), steps(copy(4, MS, BATCH), kernel(5, 3 * MS), times=5))
preparing_on_the_cpu = steps(compute(3, 5 * MS), kernel(4, MS), times=5)
preparing_little_on_the_cpu = steps(compute(3, MS // 25), kernel(4, MS), wait(5), times=5)
preparing_while_the_device_works = steps(kernel(4, 6 * MS), steps(compute(3, 5 * MS), kernel(4, 6 * MS), times=5))
two_streams = steps(item_in_a_loop, kernel(8, MS // 10, stream=1), kernel(9, MS // 10, stream=2))
asking_too_much = steps(item_in_a_loop, allocate(6, 1 << 30), out_of_memory(7, 1 << 40))
asking_enough = steps(item_in_a_loop, allocate(6, 1 << 30), allocate(7, 1 << 20))


def products(flops: float, name: str = "aten::mm") -> Step:
    return steps(kernel(4, MS, name=name, flops=flops), times=10)


def racing(program: Program) -> None:
    two_streams(program)
    program.hazard(9, "read after write", len(program.trace) - 2)


def trace_of(write: Step) -> Trace:
    program = Program()
    write(program)
    return program.trace


def advice(write: Step) -> list[Advice]:
    return list(summary(trace_of(write), T4, most_advice=100).advice)


CASES: list[tuple[str, int, Step, Step]] = [
    ("waits in a loop", 5, item_in_a_loop, item_after_the_loop),
    ("waits in a loop", 5, item_in_a_loop, item_in_a_loop_of_long_kernels),
    ("pageable copies", 3, pageable_batches, pinned_batches_on_another_stream),
    ("pageable copies", 3, pageable_batches, pageable_data_once),
    ("copies do not overlap", 3, pinned_batches_on_the_kernels_stream, pinned_batches_on_another_stream),
    ("made on the CPU", 3, batches_made_on_the_cpu, batches_with_little_noise),
    ("made on the CPU", 3, batches_made_on_the_cpu, pageable_batches),
    ("pageable copies", 3, pageable_batches, batches_made_on_the_cpu),
    ("small copies", 3, numbers_one_by_one, numbers_at_once),
    ("launches", 4, tiny_kernels, large_kernels),
    ("launches", 4, tiny_kernels, tiny_kernels_during_host_work),
    ("same bytes again", 4, weights_again, batches_that_differ),
    ("work on the CPU", 3, preparing_on_the_cpu, preparing_while_the_device_works),
    ("work on the CPU", 3, preparing_on_the_cpu, preparing_little_on_the_cpu),
    ("float32 products", 4, products(7e9), products(40e9)),
    ("float32 products", 4, products(7e9), products(1e9)),
    ("float32 products", 4, products(7e9), products(7e9, "aten::add")),
    ("scattered accesses", 4, kernel(4, MS, moved=8 << 20), kernel(4, MS, moved=1 << 20)),
    ("hazard", 9, racing, two_streams),
    ("out of memory", 7, asking_too_much, asking_enough),
]
"""Rule, line, a program that matches it, and a similar program that does not."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_has_a_program(rule: Rule) -> None:
    programs = {shows for _, _, shows, _ in CASES}
    assert any(list(rule(TraceArrays(trace_of(shows)), "cuda:0", T4["cuda:0"])) for shows in programs)


@pytest.mark.parametrize(("rule", "line", "shows", "twin"), CASES)
def test_a_rule_matches_its_program_and_not_a_similar_program(rule: str, line: int, shows: Step, twin: Step) -> None:
    by_rule = {item.rule: item for item in advice(shows)}
    assert rule in by_rule
    assert by_rule[rule].place == (FILE, line)
    assert f"train.py:{line}" in by_rule[rule].sentence
    assert by_rule[rule].what_to_do.endswith((".", ").", "`."))
    assert rule not in {item.rule for item in advice(twin)}


@pytest.mark.parametrize(
    ("shows", "rule", "gain"),
    [
        # Ten times making and copying, while no kernel runs (2 ms of it beside the one before).
        (batches_made_on_the_cpu, "made on the CPU", 50 * MS - 9 * (2 * MS - 5 * US) - 9 * 5 * US),
        # All but the first of 100 latencies.
        (numbers_one_by_one, "small copies", 990 * US),
        # 499 gaps of 4 µs between kernels of 2 µs.
        (tiny_kernels, "launches", 499 * 4 * US),
        # Five copies of a millisecond.
        (weights_again, "same bytes again", 5 * MS),
        # 10 ms at 7 TFLOP/s would be 70e9 / 65e12 s.
        (products(7e9), "float32 products", 10 * MS - 1_076_923),
        # The nine kernels between the first and the last copy hide 18 ms of them.
        (pageable_batches, "pageable copies", 18 * MS),
    ],
)
def test_the_gain_is_the_lost_time(shows: Step, rule: str, gain: int) -> None:
    (item,) = (item for item in advice(shows) if item.rule == rule)
    assert item.gain == pytest.approx(gain, abs=1)
    assert 0 < item.share <= 1


@pytest.mark.parametrize(
    ("shows", "words"),
    [
        (numbers_one_by_one, "Gather the values"),
        (a_model_moved, "move a model once"),
        (a_state_loaded, "as `load_state_dict` does"),
    ],
)
def test_the_remedy_for_small_copies_depends_on_their_origin(shows: Step, words: str) -> None:
    (item,) = (item for item in advice(shows) if item.rule == "small copies")
    assert words in item.what_to_do
    assert ("Gather" in item.what_to_do) == (shows is numbers_one_by_one)


@pytest.mark.parametrize(
    ("shows", "lines"),
    [
        (item_in_a_loop, 1),
        (steps(kernel(4, MS, launch=MS), wait(5), wait(6), kernel(7, MS, launch=MS), wait(8), times=20), 2),
    ],
)
def test_waits_cost_at_most_the_idle_time_of_the_device(shows: Step, lines: int) -> None:
    (item,) = (item for item in advice(shows) if item.rule == "waits in a loop")
    whole = summary(trace_of(shows))
    assert 1 + len(item.others) >= lines
    assert 0 < item.gain <= min(whole.host_waiting, whole.span - whole.devices[0].busy)
    assert f"{duration(item.gain)}, {share(item.share)} " in item.costs
    assert not replace(item, gain=0).costs


@pytest.mark.parametrize("wrong", [racing, asking_too_much])
def test_errors_come_before_slow_lines(wrong: Step) -> None:
    pieces = advice(wrong)
    assert pieces[0].rule in ("hazard", "out of memory")
    assert pieces[0].gain == 0
    slow = pieces[1:]
    assert slow
    assert [item.gain for item in slow] == sorted((item.gain for item in slow), reverse=True)


def test_three_pieces_of_advice_are_given_at_most_one_for_each_line() -> None:
    program = Program()
    steps(launched, wait(5, READ), times=120)(program)
    for _ in range(100):
        program.copy(13, 10 * US, 4)
    for _ in range(5):
        program.compute(23, MS)
        program.copy(33, MS)
        program.kernel(24, MS)
    pieces = summary(program.trace, T4).advice
    assert [item.place.line for item in pieces] == [33, 23, 13]
    assert [item.place.line for item in summary(program.trace, T4, most_advice=10).advice] == [33, 23, 13, 5]


def test_tiny_gains_and_traces_without_times_get_no_advice() -> None:
    program = Program()
    program.kernel(4, 50 * MS)
    weights_again(program)
    assert [item.rule for item in summary(program.trace, T4).advice] == ["same bytes again"]
    program.kernel(4, 300 * MS)
    assert summary(program.trace, T4).advice == ()
    program = Program()
    for _ in range(100):
        program.trace.add(Kind.SYNCHRONISE, "aten::item", "cuda:0", file=FILE, line=3)
    assert summary(program.trace).advice == ()


def test_reading_a_value_costs_its_wait_and_its_launch() -> None:
    first, second = advice(item_of_tiny_kernels)
    assert (first.rule, second.rule) == ("waits in a loop", "launches")
    # The first of the launches begins after the first two kernels: 10 µs of idle time are before it.
    assert first.gain == 200 * (8 + 10) * US - 10 * US
    # Of the launches only those of the second kernels are left: the first ones are what the waits cost.
    assert second.gain == 200 * 4 * US
    assert first.place == second.place == (FILE, 4)
    assert "CUDA graph" not in second.what_to_do


def test_advice_on_launches_names_what_is_not_used_yet() -> None:
    tiny, tiny_foreach = (advice(program)[0].what_to_do for program in (tiny_kernels, tiny_foreach_kernels))
    assert all(words in tiny for words in ("CUDA graph", "`foreach`"))
    assert "foreach" not in tiny_foreach


def test_lines_with_the_same_remedy_share_a_piece_of_advice() -> None:
    (item,) = advice(steps(*(kernel(line, MS, flops=7e9) for line in [9] * 20 + [8] * 10 + [12] * 10)))
    assert (item.place.line, [other.line for other in item.others]) == (9, [8, 12])
    assert item.sentence.endswith("lines 8 and 12.")
    assert item.gain == pytest.approx(40 * (MS - 107_692.3), abs=40)


@pytest.mark.parametrize("name", ["aten::index", "aten::nonzero", "aten::masked_select"])
def test_shapes_that_depend_on_values_have_their_own_advice(name: str) -> None:
    (item,) = advice(steps(kernel(4, MS, launch=MS), wait(4, name), times=20))
    assert item.rule == "waits in a loop"
    assert "number of elements" in item.sentence
    assert "torch.where" in item.what_to_do
    assert "after the loop" not in item.what_to_do


def _range(program: Program, name: str, time: int, line: int) -> None:
    began = program.now
    program.now += time
    program.trace.add(Kind.RANGE, name, "cpu", launched=began, start=began, end=program.now, file=FILE, line=line)


def _compiled(
    *graphs: str, calls: int = 20, recompiles: tuple[str, ...] = (), breaks: dict[int, str] | None = None
) -> Program:
    """Return a program that compiles graphs and calls each of them; a kernel of 1 ms follows each call."""
    program = Program()
    for line, reason in (breaks or {}).items():
        _range(program, GRAPH_BREAK + reason, 0, line)
    for reason in recompiles:
        _range(program, RECOMPILES + reason, 0, 20)
    for graph in graphs:
        _range(program, f"{COMPILES}{graph}, 3 kernels", 500 * MS, 20)
    for _ in range(calls):
        for graph in graphs:
            _range(program, REGION + graph, 200 * US, 20)
            program.kernel(9, MS)
    return program


def _rules(program: Program) -> dict[str, tuple[Place, tuple[Place, ...], int]]:
    advice = collect_advice(TraceArrays(program.trace), (), {}, None)
    return {each.rule: (each.place, each.others, each.gain) for each in advice}


def test_code_that_compiles_once_without_breaks_gets_no_advice() -> None:
    assert _rules(_compiled("0/0")) == {}


def test_breaks_are_named_together() -> None:
    program = _compiled("0/0", "1/0", "2/0", breaks={12: "Tensor.item()", 14: "print"})
    place, others, gain = _rules(program)["graph breaks"]
    assert (place, others) == (Place(FILE, 12), (Place(FILE, 14),))
    # Two thirds of the time in compiled code.
    assert gain == 2 * 20 * 200 * US
    (advice,) = collect_advice(TraceArrays(program.trace), (), {}, None)
    assert "12 (Tensor.item())" in advice.sentence


def test_a_break_is_named_where_the_host_also_waits() -> None:
    program = _compiled("0/0", "1/0", calls=5, breaks={12: "Data-dependent branching"})
    for _ in range(20):
        program.kernel(9, 100 * US)
        program.wait(12, "aten::_local_scalar_dense")
        program.now += 50 * US
    rules = _rules(program)
    assert rules["graph breaks"][0] == rules["waits in a loop"][0] == Place(FILE, 12)


def test_a_function_that_stays_uncompiled_is_named() -> None:
    program = _compiled(breaks={12: "print" + UNCOMPILED})
    for _ in range(5):
        program.kernel(9, MS, name="aten::relu")
    place, _, gain = _rules(program)["graph breaks"]
    assert (place, gain) == (Place(FILE, 12), 5 * MS)


def test_repeated_compilation_costs_what_it_took() -> None:
    program = _compiled("0/0", "0/1", "0/2", recompiles=("size mismatch at index 0", "size mismatch at index 0"))
    place, _, gain = _rules(program)["repeated compilation"]
    assert (place, gain) == (Place(FILE, 20), 2 * 500 * MS)


def test_the_reason_is_that_of_the_line_named() -> None:
    program = Program()
    for line, reason in ((17, "stride mismatch"), (20, "size mismatch"), (9, "flag is False"), (20, "size mismatch")):
        _range(program, RECOMPILES + reason, 0, line)
    for graph in ("0/0", "0/1"):
        _range(program, f"{COMPILES}{graph}, 3 kernels", 500 * MS, 20)
    program.kernel(9, MS)
    (advice,) = collect_advice(TraceArrays(program.trace), (), {}, None)
    assert advice.place == Place(FILE, 20)
    assert "and 2 other lines" in advice.sentence
    assert "size mismatch" in advice.sentence


def test_other_advice_is_measured_without_the_compilation() -> None:
    program = _compiled("0/0", calls=5)
    for _ in range(20):
        program.kernel(9, 100 * US)
        program.wait(30, "aten::_local_scalar_dense")
        program.now += 50 * US
    assert "waits in a loop" in _rules(program)
