"""The words for what went wrong in a submission."""

from __future__ import annotations

import pytest

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.judge.failures import from_failure
from gpututor.protocol.messages import Failure
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.gradings import Grade


@pytest.mark.parametrize(
    ("type_name", "message", "advice"),
    [
        ("RuntimeError", "Expected all tensors to be on the same device, but found cuda:0 and cpu", "which device"),
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)", "Read the message"),
        ("RuntimeError", "Both events must be completed before calculating elapsed time.", "Read the message"),
        (
            "RuntimeError",
            "… CUDA device 5 … Please use torch.load with map_location to map your storages",
            "map_location=",
        ),
        ("NameError", "name 'tourch' is not defined", "spelling"),
        ("ValueError", "no", "Read the message"),
        ("RuntimeError", "CUDA error: device-side assert triggered", "Read the message"),
        ("RuntimeError", "No CUDA GPUs are available", "Read the message"),
        ("EOFError", "Ran out of input", "Read the message"),
        ("EOFError", "EOF when reading a line", "input()"),
        ("NotImplementedError", "", "The starter raises this"),
        ("NotImplementedError", 'Module [Net] is missing the required "forward" function', "Read the message"),
    ],
)
def test_the_advice_for_an_exception_is_about_its_cause(type_name: str, message: str, advice: str) -> None:
    exercise = load_course(paths.builtin_course()).exercises[0]
    failure = Failure("exception", type_name, message, 1, "")
    finding = from_failure(failure, "runs", exercise, "pass\n", "").finding
    assert advice in finding.advice
    said = ": ".join(filter(None, (type_name, message.removesuffix("."))))
    assert finding.got == f"{said}, at line 1"


MIXED = """\
import torch


class Scaler:
    def __init__(self, device):
        self.mean = torch.zeros(3, device=device)
        self.layer = torch.nn.Linear(3, 3)

    @property
    def std(self):
        raise ValueError("a property ran")

    def scale(self, x):
        return (x - self.mean) / other(self.layer(x))


def other(y):
    return y


def twice(number):
    x = torch.ones(2, 3, device="cuda")
    {line}
"""


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("return Scaler('cpu').scale(x)", "at line 14: x on cuda:0, self.mean on cpu (call 1"),
        ("return Scaler('cuda').scale(x)", "at line 14: self.layer on cpu, x on cuda:0 (call 1"),
        ("y = [x, torch.ones(2, 3)]; return torch.cat(y)", "at line 23: y on cpu and cuda:0 (call 1"),
    ],
)
def test_who_mixes_devices_reads_which_tensors_met(grade: Grade, line: str, got: str) -> None:
    report = grade(MIXED.format(line=line), device="virtual")

    first = report.first_failure
    assert first is not None
    assert first.check == "runs"
    assert got in first.got


def test_an_ellipsis_keeps_its_dots_before_the_line() -> None:
    exercise = load_course(paths.builtin_course()).exercises[0]
    failure = Failure("exception", "ValueError", "and so on...", 1, "")
    assert from_failure(failure, "runs", exercise, "pass\n", "").finding.got == "ValueError: and so on..., at line 1"


MIB = 1 << 20


def out_of_memory(*taken: tuple[int, int | None], before: int = 0) -> Trace:
    """Memory, in MiB by line, was taken, and then more was refused; on another device there was enough."""
    trace = Trace()
    trace.add(Kind.ALLOCATE, "allocate", "cuda:1", size_bytes=MIB, allocated=MIB, launched=0, file="f", line=1)
    held = before
    for number, (mib, line) in enumerate(taken, 1):
        held += mib
        now = held * MIB
        trace.add(
            Kind.ALLOCATE, "", "cuda:0", size_bytes=mib * MIB, allocated=now, launched=number, file="f", line=line
        )
    now = held * MIB
    trace.add(Kind.OUT_OF_MEMORY, "", "cuda:0", size_bytes=50 * MIB, allocated=now, launched=99, file="f", line=9)
    return trace


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (
            out_of_memory((10, 4), (2, 5), (30, 4), (1, 6), (1, 7), before=16),
            "When memory ran out, cuda:0 held 60.0 MiB: 40.0 MiB from line 4 (2 tensors), 2.00 MiB from line 5,"
            " 1.00 MiB from line 6, 1.00 MiB from other lines, 16.0 MiB from before the call. Look for",
        ),
        (out_of_memory((10, None)), "held 10.0 MiB: 10.0 MiB from outside your file. Look for"),
        (out_of_memory(before=3), "held 3.00 MiB: 3.00 MiB from before the call. Look for"),
        (out_of_memory(), "Nothing was on cuda:0 when memory ran out: 50.0 MiB alone are too much for it. Look for"),
        (Trace(), "Look for a tensor"),
        (None, "Look for a tensor"),
    ],
)
def test_who_runs_out_of_memory_reads_which_lines_held_it(trace: Trace | None, words: str) -> None:
    exercise = load_course(paths.builtin_course()).exercises[0]
    failure = Failure("out of memory", "OutOfMemoryError", "CUDA out of memory", 9, "")
    advice = from_failure(failure, "runs", exercise, "pass\n" * 9, "", trace).finding.advice
    assert words in advice
