"""Each rule of advice: a program that shows it, and a near twin that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpututor.trace.advice_rules import Advice, Rates
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration, share
from gpututor.trace.summary import summary
from tests.support.traces import FILE, MS, US, Program

T4 = {"cuda:0": Rates(float32=8e12, tensor=65e12)}


def advice(write: Callable[[Program], object]) -> list[Advice]:
    program = Program()
    write(program)
    return list(summary(program.trace, T4, most_advice=100).advice)


def item_in_a_loop(p: Program) -> None:
    for _ in range(20):
        for _ in range(10):
            p.kernel(4, 10 * US, launch=8 * US)
        p.wait(5, "aten::_local_scalar_dense")


def item_after_the_loop(p: Program) -> None:
    for _ in range(200):
        p.kernel(4, 10 * US, launch=8 * US)
    p.wait(5, "aten::_local_scalar_dense")


def item_in_a_loop_of_long_kernels(p: Program) -> None:
    # The device has work all the time: the host that waits loses nothing.
    for _ in range(20):
        p.kernel(4, 10 * MS)
        p.wait(5, "aten::_local_scalar_dense")


def pageable_batches(p: Program) -> None:
    for _ in range(10):
        p.copy(3, 2 * MS, 8 << 20)
        p.kernel(4, 2 * MS)


def pinned_batches_on_a_stream_of_their_own(p: Program) -> None:
    p.copy(3, 2 * MS, 8 << 20, asynchronous=True, stream=1)
    for _ in range(10):
        p.copy(3, 2 * MS, 8 << 20, asynchronous=True, stream=1)
        p.kernel(4, 2 * MS)


def pageable_data_once(p: Program) -> None:
    p.copy(3, 2 * MS, 8 << 20)
    for _ in range(10):
        p.kernel(4, 2 * MS)


def pinned_batches_on_the_kernels_stream(p: Program) -> None:
    for _ in range(10):
        p.copy(3, 2 * MS, 8 << 20, asynchronous=True)
        p.kernel(4, 2 * MS)


def batches_made_on_the_cpu(p: Program) -> None:
    for _ in range(10):
        p.compute(3, 3 * MS, name="aten::randn", size_bytes=8 << 20)
        p.copy(3, 2 * MS, 8 << 20)
        p.kernel(4, 2 * MS)


def batches_with_little_noise_of_the_cpu(p: Program) -> None:
    for _ in range(10):
        p.compute(3, 3 * MS, name="aten::randn", size_bytes=1 << 10)
        p.copy(3, 2 * MS, 8 << 20)
        p.kernel(4, 2 * MS)


def numbers_one_by_one(p: Program) -> None:
    for _ in range(100):
        p.copy(3, 10 * US, 4)
    p.kernel(4, MS)


def a_model_moved(p: Program) -> None:
    for _ in range(50):
        p.copy(3, 10 * US, 16384)
        p.copy(3, 10 * US, 256)
    p.kernel(4, MS)


def a_state_loaded(p: Program) -> None:
    for _ in range(50):
        p.copy(3, 10 * US, 16384, name="aten::copy_")
        p.copy(3, 10 * US, 256, name="aten::copy_")
    p.kernel(4, MS)


def numbers_at_once(p: Program) -> None:
    p.copy(3, 11 * US, 400)
    p.kernel(4, MS)


def tiny_kernels(p: Program) -> None:
    for _ in range(500):
        p.kernel(4, 2 * US, launch=6 * US)


def large_kernels(p: Program) -> None:
    for _ in range(500):
        p.kernel(4, 20 * US, launch=6 * US)


def tiny_kernels_beside_work_of_the_host(p: Program) -> None:
    for _ in range(500):
        p.compute(3, 20 * US)
        p.kernel(4, 19 * US, launch=0)


def weights_again(p: Program) -> None:
    first = p.copy(3, MS, 8 << 20)
    for _ in range(5):
        p.copy(4, MS, 8 << 20, partner=first)
        p.kernel(5, 3 * MS)


def batches_that_differ(p: Program) -> None:
    p.copy(3, MS, 8 << 20)
    for _ in range(5):
        p.copy(4, MS, 8 << 20)
        p.kernel(5, 3 * MS)


def preparing_on_the_cpu(p: Program) -> None:
    for _ in range(5):
        p.compute(3, 5 * MS)
        p.kernel(4, MS)


def preparing_little_on_the_cpu(p: Program) -> None:
    for _ in range(5):
        p.compute(3, MS // 25)
        p.kernel(4, MS)
        p.wait(5)


def preparing_while_the_device_works(p: Program) -> None:
    p.kernel(4, 6 * MS)
    for _ in range(5):
        p.compute(3, 5 * MS)
        p.kernel(4, 6 * MS)


def products(flops: float, name: str = "aten::mm") -> Callable[[Program], None]:
    def write(p: Program) -> None:
        for _ in range(10):
            p.kernel(4, MS, name=name, flops=flops)

    return write


def racing(p: Program) -> None:
    item_in_a_loop(p)
    written = p.kernel(8, MS, stream=1)
    p.kernel(9, MS, stream=2)
    p.hazard(9, "read after write", written)


def waiting_for_the_other_stream(p: Program) -> None:
    item_in_a_loop(p)
    p.kernel(8, MS, stream=1)
    p.kernel(9, MS, stream=2)


def asking_too_much(p: Program) -> None:
    item_in_a_loop(p)
    p.allocate(6, 1 << 30)
    p.out_of_memory(7, 1 << 40)


def asking_enough(p: Program) -> None:
    item_in_a_loop(p)
    p.allocate(6, 1 << 30)
    p.allocate(7, 1 << 20)


@pytest.mark.parametrize(
    ("rule", "line", "shows", "twin"),
    [
        ("waits in a loop", 5, item_in_a_loop, item_after_the_loop),
        ("waits in a loop", 5, item_in_a_loop, item_in_a_loop_of_long_kernels),
        ("pageable copies", 3, pageable_batches, pinned_batches_on_a_stream_of_their_own),
        ("pageable copies", 3, pageable_batches, pageable_data_once),
        ("copies do not overlap", 3, pinned_batches_on_the_kernels_stream, pinned_batches_on_a_stream_of_their_own),
        ("made on the CPU", 3, batches_made_on_the_cpu, batches_with_little_noise_of_the_cpu),
        ("made on the CPU", 3, batches_made_on_the_cpu, pageable_batches),
        ("pageable copies", 3, pageable_batches, batches_made_on_the_cpu),
        ("small copies", 3, numbers_one_by_one, numbers_at_once),
        ("launches", 4, tiny_kernels, large_kernels),
        ("launches", 4, tiny_kernels, tiny_kernels_beside_work_of_the_host),
        ("same bytes again", 4, weights_again, batches_that_differ),
        ("work on the CPU", 3, preparing_on_the_cpu, preparing_while_the_device_works),
        ("work on the CPU", 3, preparing_on_the_cpu, preparing_little_on_the_cpu),
        ("float32 products", 4, products(7e9), products(40e9)),
        ("float32 products", 4, products(7e9), products(1e9)),
        ("float32 products", 4, products(7e9), products(7e9, "aten::add")),
        ("hazard", 9, racing, waiting_for_the_other_stream),
        ("out of memory", 7, asking_too_much, asking_enough),
    ],
)
def test_a_rule_matches_its_program_and_not_a_similar_program(
    rule: str, line: int, shows: Callable[[Program], None], twin: Callable[[Program], None]
) -> None:
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
def test_the_gain_is_the_lost_time(shows: Callable[[Program], None], rule: str, gain: int) -> None:
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
def test_the_remedy_for_small_copies_depends_on_their_origin(shows: Callable[[Program], None], words: str) -> None:
    (item,) = (item for item in advice(shows) if item.rule == "small copies")
    assert words in item.what_to_do
    assert ("Gather" in item.what_to_do) == (shows is numbers_one_by_one)


def test_waits_cost_at_most_the_idle_time_of_the_device() -> None:
    (item,) = (item for item in advice(item_in_a_loop) if item.rule == "waits in a loop")
    program = Program()
    item_in_a_loop(program)
    whole = summary(program.trace)
    assert 0 < item.gain <= min(whole.host_waiting, whole.span - whole.devices[0].busy)


@pytest.mark.parametrize("wrong", [racing, asking_too_much])
def test_errors_come_before_slow_lines(wrong: Callable[[Program], None]) -> None:
    pieces = advice(wrong)
    assert pieces[0].rule in ("hazard", "out of memory")
    assert pieces[0].gain == 0
    slow = pieces[1:]
    assert slow
    assert [item.gain for item in slow] == sorted((item.gain for item in slow), reverse=True)


def test_advice_states_the_cost() -> None:
    (item,) = (item for item in advice(item_in_a_loop) if item.rule == "waits in a loop")
    assert item.costs == f"As it is, this costs about {duration(item.gain)}, {share(item.share)} of the time."
    assert not replace(item, gain=0).costs


def test_three_pieces_of_advice_are_given_at_most_one_for_each_line() -> None:
    program = Program()
    for _ in range(3):
        item_in_a_loop(program)
    for _ in range(100):
        program.copy(13, 10 * US, 4)
    for _ in range(5):
        program.compute(23, MS)
        program.copy(33, MS)
        program.kernel(24, MS)
    pieces = summary(program.trace, T4).advice
    assert [item.place.line for item in pieces] == [33, 23, 13]
    assert [item.place.line for item in summary(program.trace, T4, most_advice=10).advice] == [33, 23, 13, 5]


def test_tiny_gains_are_left_out() -> None:
    program = Program()
    program.kernel(4, 100 * MS)
    weights_again(program)
    assert [item.rule for item in summary(program.trace, T4).advice] == ["same bytes again"]
    program.kernel(4, 300 * MS)
    assert summary(program.trace, T4).advice == ()


def item_of_tiny_kernels(p: Program) -> None:
    for _ in range(200):
        p.kernel(4, 2 * US, launch=6 * US)
        p.kernel(4, 2 * US, launch=6 * US)
        p.read(4, 8 * US, launch=10 * US)


def test_reading_a_value_costs_its_wait_and_its_launch() -> None:
    first, second = advice(item_of_tiny_kernels)
    assert (first.rule, second.rule) == ("waits in a loop", "launches")
    # The first of the launches begins after the first two kernels: 10 µs of idle time are before it.
    assert first.gain == 200 * (8 + 10) * US - 10 * US
    # Of the launches only those of the second kernels are left: the first ones are what the waits cost.
    assert second.gain == 200 * 4 * US
    assert first.place == second.place == (FILE, 4)
    assert "CUDA graph" not in second.what_to_do
    assert "CUDA graph" in advice(tiny_kernels)[0].what_to_do


def test_foreach_is_not_advised_if_it_is_used() -> None:
    def write(p: Program) -> None:
        for _ in range(500):
            p.kernel(4, 2 * US, launch=6 * US, name="aten::_foreach_add_")

    assert "`foreach`" in advice(tiny_kernels)[0].what_to_do
    assert "foreach" not in advice(write)[0].what_to_do


def test_lines_with_the_same_remedy_share_a_piece_of_advice() -> None:
    def write(p: Program) -> None:
        for line, count in ((9, 20), (8, 10), (12, 10)):
            for _ in range(count):
                p.kernel(line, MS, flops=7e9)

    (item,) = advice(write)
    assert (item.place.line, [other.line for other in item.others]) == (9, [8, 12])
    assert item.sentence.endswith("20 products, 20.0 ms. The same goes for lines 8 and 12.")
    assert item.gain == pytest.approx(40 * (MS - 107_692.3), abs=40)


def test_waits_at_several_lines_cost_at_most_the_idle_time() -> None:
    def write(p: Program) -> None:
        for _ in range(20):
            p.kernel(4, MS, launch=MS)
            p.wait(5)
            p.wait(6)
            p.kernel(7, MS, launch=MS)
            p.wait(8)

    program = Program()
    write(program)
    (item,) = (item for item in advice(write) if item.rule == "waits in a loop")
    whole = summary(program.trace)
    assert item.others
    assert 0 < item.gain <= min(whole.host_waiting, whole.span - whole.devices[0].busy)


@pytest.mark.parametrize("name", ["aten::index", "aten::nonzero", "aten::masked_select"])
def test_shapes_that_depend_on_values_have_their_own_advice(name: str) -> None:
    def write(p: Program) -> None:
        for _ in range(20):
            p.kernel(4, MS, launch=MS)
            p.wait(4, name)

    (item,) = advice(write)
    assert item.rule == "waits in a loop"
    assert "how many elements" in item.sentence
    assert "torch.where" in item.what_to_do
    assert "after the loop" not in item.what_to_do


def test_without_times_there_is_no_advice() -> None:
    program = Program()
    for _ in range(100):
        program.trace.add(Kind.SYNCHRONISE, "aten::item", "cuda:0", file=FILE, line=3)
    assert summary(program.trace).advice == ()
