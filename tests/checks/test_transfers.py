"""Asynchronous copies are counted by themselves, and waits are named by what caused them."""

from __future__ import annotations

import pytest
import torch

from gpututor.checks import syncs, transfers
from gpututor.checks.model import count
from gpututor.errors import CourseError
from tests.support.check_runs import found, run_of
from tests.support.recorded_programs import recorded

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
X = torch.ones(100)


def test_a_copy_of_pinned_memory_that_does_not_block_passes_and_its_twins_do_not() -> None:
    check = transfers(to_device=1, asynchronous_to_device=1)

    assert check.find(recorded(UP, {"x": X, "pinned": True, "non_blocking": True})) is None
    for pinned, non_blocking in ((False, True), (True, False), (False, False)):
        finding = found(check, recorded(UP, {"x": X, "pinned": pinned, "non_blocking": non_blocking}))
        assert finding.expected == "1 asynchronous host-to-device copy in a call"
        assert finding.got.startswith("none of 1 is; the host waits at line 4")
        assert finding.line == 4
        assert "pin_memory" in finding.advice


def test_asynchronous_copies_to_the_host_are_counted_too() -> None:
    check = transfers(asynchronous_to_host=1)

    assert check.find(recorded(DOWN, {"pinned": True})) is None
    assert found(check, recorded(DOWN, {"pinned": False})).got.startswith("none of 1 is; the host waits at line 5")
    assert found(check, run_of(None)).got == "no copies"


def test_asynchronous_copies_can_be_forbidden() -> None:
    run = recorded(UP, {"x": X, "pinned": True, "non_blocking": True})

    assert found(transfers(asynchronous_to_device=0), run).got.startswith("1 of 1 is; those are at line 4")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("total += loss.item()", "`.item()` at line 6, 30 times"),
        ("total += float(loss)", "`float()` at line 6, 30 times"),
        ("total += 1 if loss > 0 else 2", "a value of the device that is read at line 6, 30 times"),
        ("total += loss.cpu()", "`.cpu()` at line 6, 30 times"),
        ("torch.cuda.synchronize()", "`torch.cuda.synchronize()` at line 6, 30 times"),
        ("loss.nonzero()", "`nonzero` at line 6, 30 times"),
    ],
)
def test_waits_are_named_by_their_cause(statement: str, words: str) -> None:
    source = f"""import torch
def work():
    loss = torch.ones((), device="cuda")
    total = 0
    for _ in range(30):
        {statement}
"""
    run = recorded(source)

    assert syncs(at_most=30).find(run) is None
    finding = found(syncs(at_most=1), run)
    assert finding.got == f"30 waits: {words}"
    assert finding.line == 6


def test_several_causes_are_told_in_the_files_order_and_the_rest_is_counted() -> None:
    lines = "\n".join(f"    x{number} = x.item()" for number in range(6))
    run = recorded(f"import torch\ndef work():\n    x = torch.ones((), device='cuda')\n{lines}\n")

    got = found(syncs(), run).got
    assert got.startswith("6 waits: `.item()` at line 4; `.item()` at line 5; ")
    assert got.endswith("; 2 elsewhere")


def test_an_odd_amount_is_the_authors_fault() -> None:
    for check in (transfers(to_host=-1), transfers(asynchronous_to_host=(2, 1)), syncs(at_most=-1)):
        with pytest.raises(CourseError, match="no amount") as refused:
            check.find(run_of(None))
        assert "checks.py" in refused.value.advice


def test_the_thing_that_is_counted_gets_the_plural() -> None:
    assert [count(number, "copy between devices") for number in (0, 1, 2)] == [
        "no copies between devices",
        "1 copy between devices",
        "2 copies between devices",
    ]


@pytest.mark.parametrize(
    ("most", "words"), [(0, "no waits for the device in a call"), (1, "at most 1 wait for the device in a call")]
)
def test_what_is_expected_of_waits_is_said_in_the_right_number(most: int, words: str) -> None:
    run = recorded("import torch\ndef work():\n    x = torch.ones((), device='cuda')\n    x.item()\n    x.item()\n")
    assert found(syncs(at_most=most), run).expected == words
