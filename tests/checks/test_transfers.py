"""Transfers and host synchronizations: counts, bytes, lines and causes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from gpututor.checks import syncs, transfers
from gpututor.checks.model import count
from tests.support.check_runs import copies, failure, run_of, waits
from tests.support.recorded_programs import recorded

X = torch.ones(100)


def test_each_direction_is_counted() -> None:
    trace = copies(("cpu", "cuda:0", 100, 5), ("cuda:0", "cpu", 40, 6), ("cuda:0", "cuda:1", 7, 6))

    assert transfers(to_device=1, to_host=1, between=1).find(run_of(None, trace=trace)) is None
    assert transfers(bytes_to_device=100, bytes_to_host=40, bytes_between=7).find(run_of(None, trace=trace)) is None
    finding = failure(transfers(to_device=0), run_of(None, trace=trace))
    assert "100 bytes" in finding.got
    assert finding.line == 5


def test_the_line_is_that_of_the_first_excess_copy() -> None:
    run = run_of(None, trace=copies(*[("cpu", "cuda:0", 4, 7)] * 3, ("cpu", "cuda:0", 4, 9)))
    last, second = (failure(transfers(to_device=(0, most)), run) for most in (3, 1))

    assert (last.line, second.line) == (9, 7)
    assert "line 7 (3 times)" in last.got
    assert second.expected.startswith("0 to 1 ")


@pytest.mark.parametrize(("size_bytes", "line", "is_named"), [(8, 2, True), (8, 3, False), (16, 2, False)])
def test_a_number_made_on_the_host_is_named(size_bytes: int, line: int, is_named: bool) -> None:
    source = "def work(x):\n    y = torch.tensor(1.0, device=x.device)\n    return x.to('cuda') + y\n"
    run = run_of(None, trace=copies(("cpu", "cuda:0", size_bytes, line)), source=source)
    assert ("`torch.full` makes it" in failure(transfers(to_device=0), run).got) is is_named


def test_bytes_can_be_computed_from_the_inputs() -> None:
    check = transfers(bytes_to_device=lambda drawn, machine: drawn["x"].nbytes)

    assert check.find(run_of(None, {"x": X}, trace=copies(("cpu", "cuda:0", X.nbytes, 5)))) is None
    assert "48 bytes" in failure(check, run_of(None, {"x": X}, trace=copies(("cpu", "cuda:0", 48, 5)))).got
    assert failure(check, run_of(None, {"x": X})).got.startswith("no host-to-device copy")


def test_of_copies_to_the_host_the_last_are_allowed() -> None:
    down = run_of(None, trace=copies(("cuda:0", "cpu", 4, 5), ("cuda:0", "cpu", 4, 6), ("cuda:0", "cpu", 400, 8)))
    up = run_of(None, trace=copies(("cpu", "cuda:0", 4, 5), ("cpu", "cuda:0", 4, 5), ("cpu", "cuda:0", 9, 6)))

    assert [failure(transfers(to_host=most), down).line for most in (1, 2)] == [6, 5]
    assert failure(transfers(to_host=4), down).line == 5, "too few: the line with most"
    assert failure(transfers(bytes_to_host=404), down).line == 5
    assert [failure(transfers(bytes_to_device=most), up).line for most in (8, 20)] == [6, 5]


def test_waits_are_counted_and_their_line_is_reported() -> None:
    assert syncs(at_most=2).find(run_of(None, trace=waits(5, 6))) is None
    finding = failure(syncs(), run_of(None, trace=waits(5, 5, 6)))
    assert finding.line == 5
    assert finding.expected.startswith("no waits")
    assert finding.got.startswith("3 waits")
    assert failure(syncs(at_most=1), run_of(None, trace=waits(5, 6))).expected.startswith("at most 1 wait ")


AROUND_A_LOOP = """import torch
def work(in_loop):
    x = torch.ones(4, 4, device="cuda")
    torch.cuda.synchronize()
    for _ in range(3):
        x = x @ x
        print(x[0, 0].item()) if in_loop else None
    print(x.norm().item())
    torch.cuda.synchronize()
"""


def test_waits_outside_a_loop_do_not_count_if_only_its_own_do() -> None:
    outside, everywhere = (recorded(AROUND_A_LOOP, {"in_loop": in_loop}) for in_loop in (False, True))
    check = syncs(loop_of="aten::*mm")

    assert check.find(outside) is None
    assert failure(syncs(), outside).got.startswith("3 waits")
    finding = failure(check, everywhere)
    assert (finding.expected, finding.line) == ("no waits for the device in the loop", 7)
    assert finding.got.startswith("2 waits"), "the last step's wait is after the last product"
    ranks = replace(everywhere.calls[0], ranks=(outside.calls[0], everywhere.calls[0]))
    assert failure(check, replace(everywhere, calls=(ranks,))).got.startswith("2 waits"), "each rank has its own loop"


UP = """import torch
def work(x, pinned, non_blocking):
    x = x.pin_memory() if pinned else x
    y = x.to("cuda", non_blocking=non_blocking)
    return y + 1
"""


DOWN = """import torch
def work(pinned):
    y = torch.ones(100, device="cuda")
    kept = torch.empty(100, pin_memory=pinned)
    kept.copy_(y, non_blocking=True)
    torch.cuda.synchronize()
    return kept
"""


def test_only_a_non_blocking_copy_of_pinned_memory_is_asynchronous() -> None:
    check = transfers(to_device=1, asynchronous_to_device=1)

    right = recorded(UP, {"x": X, "pinned": True, "non_blocking": True})
    assert check.find(right) is None
    assert failure(transfers(asynchronous_to_device=0), right).line == 4, "they can be forbidden too"
    for pinned, non_blocking in ((False, True), (True, False), (False, False)):
        finding = failure(check, recorded(UP, {"x": X, "pinned": pinned, "non_blocking": non_blocking}))
        assert finding.got.startswith("none of 1 ")
        assert finding.line == 4
        assert "pin_memory" in finding.advice


def test_asynchronous_copies_to_the_host_are_counted_too() -> None:
    check = transfers(asynchronous_to_host=1)

    assert check.find(recorded(DOWN, {"pinned": True})) is None
    assert failure(check, recorded(DOWN, {"pinned": False})).line == 5
    assert failure(check, run_of(None)).got == "no copies"


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("total += loss.item()", "`.item()`"),
        ("total += float(loss)", "`float()`"),
        ("total += 1 if loss > 0 else 2", "reading a value"),
        ("total += loss.cpu()", "`.cpu()`"),
        ("torch.cuda.synchronize()", "`torch.cuda.synchronize()`"),
        ("loss.nonzero()", "`nonzero`"),
    ],
)
def test_waits_are_named_by_their_cause(statement: str, cause: str) -> None:
    source = f"""import torch
def work():
    loss = torch.ones((), device="cuda")
    total = 0
    for _ in range(30):
        {statement}
"""
    run = recorded(source)

    assert syncs(at_most=30).find(run) is None
    finding = failure(syncs(at_most=1), run)
    assert finding.got.startswith(f"30 waits: {cause}")
    assert finding.line == 6


def test_a_call_that_another_check_changed_is_named_in_the_finding() -> None:
    run = recorded("import torch\ndef work():\n    torch.ones((), device='cuda').item()\n")
    run = replace(run, repeated=((*run.calls, *run.calls),))
    changed = replace(run, calls=tuple(replace(call) for call in run.calls))

    assert failure(syncs(), changed).got.endswith(run.which(run.calls[0]))


def test_several_causes_are_listed_in_the_files_order_and_plurals_fit() -> None:
    lines = "\n".join(f"    x{number} = x.item()" for number in range(6))
    run = recorded(f"import torch\ndef work():\n    x = torch.ones((), device='cuda')\n{lines}\n")

    got = failure(syncs(), run).got
    assert re.findall(r"line (\d)", got) == ["4", "5", "6", "7"]
    assert got.endswith("; 2 elsewhere")
    numbers = [count(number, "copy between devices") for number in (0, 1, 2)]
    assert numbers == ["no copies between devices", "1 copy between devices", "2 copies between devices"]
