"""Failures of loading and calling a submission: the failed check, the line, and advice about the cause."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpututor import paths
from gpututor.checks.model import Finding
from gpututor.course.loader import load_course
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Outcome
from gpututor.judge import grader
from gpututor.judge.failures import from_failure
from gpututor.protocol.messages import Failure, FailureKind
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.gradings import EMPTY_TRACE, Grade, failure
from tests.support.tiny_course import RIGHT, append

EXERCISE = load_course(paths.builtin_course()).exercises[0]


def finding_of(
    type_name: str, message: str, kind: FailureKind = "exception", line: int = 1, trace: Trace | None = None
) -> Finding:
    failed = Failure(kind, type_name, message, line, "")
    return from_failure(failed, "runs", EXERCISE, "pass\n" * 9, "", trace).finding


@pytest.mark.parametrize(
    ("type_name", "message", "advice"),
    [
        ("RuntimeError", "Expected all tensors to be on the same device, but found cuda:0 and cpu", "which device"),
        ("RuntimeError", "… CUDA device 5 … Please use torch.load with map_location to map …", "map_location="),
        ("ModuleNotFoundError", "No module named 'pandas'", "import"),
        ("NameError", "name 'tourch' is not defined", "spelling"),
        ("EOFError", "EOF when reading a line", "input()"),
        ("NotImplementedError", "", "starter"),
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)", ""),
        ("RuntimeError", "Both events must be completed before calculating elapsed time.", ""),
        ("RuntimeError", "CUDA error: device-side assert triggered", ""),
        ("RuntimeError", "No CUDA GPUs are available", ""),
        ("EOFError", "Ran out of input", ""),
        ("NotImplementedError", 'Module [Net] is missing the required "forward" function', ""),
    ],
)
def test_the_advice_for_an_exception_is_about_its_cause(type_name: str, message: str, advice: str) -> None:
    finding = finding_of(type_name, message)
    is_general = finding.advice == finding_of("ValueError", "no").advice
    assert is_general is not bool(advice)
    assert advice in finding.advice
    assert finding.got.endswith(", at line 1")
    assert message.removesuffix(".") in finding.got


def test_an_ellipsis_keeps_its_dots_before_the_line() -> None:
    assert "and so on..., " in finding_of("ValueError", "and so on...").got


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
    ("line", "number", "tensors"),
    [
        ("return Scaler('cpu').scale(x)", 14, "x on cuda:0, self.mean on cpu"),
        ("return Scaler('cuda').scale(x)", 14, "self.layer on cpu, x on cuda:0"),
        ("return x @ torch.ones(4, 3).T", 23, "x on cuda:0"),
        ("w = torch.ones(4, 3); return x.float() @ w.T", 23, "x on cuda:0, w on cpu"),
        ("y = [x, torch.ones(2, 3)]; return torch.cat(y)", 23, "y on cpu and cuda:0"),
        ("y = torch.ones(3); return torch.meshgrid(x[0], y, indexing='ij')", 23, "x on cuda:0, y on cpu"),
    ],
)
def test_mixed_devices_are_listed_by_tensor(grade: Grade, line: str, number: int, tensors: str) -> None:
    check, got, at = failure(grade(MIXED.format(line=line), device="virtual"))
    assert (check, at) == ("runs", number)
    assert f": {tensors} (call 1" in got


MIB = 1 << 20


def out_of_memory(*taken: tuple[int, int | None], before: int = 0) -> Trace:
    """Return a trace that takes MiB by line, and is then refused more; another device has enough."""
    trace = Trace()
    trace.add(Kind.ALLOCATE, "", "cuda:1", size_bytes=MIB, allocated=MIB, launched=0, file="f", line=1)
    held = before * MIB
    for number, (mib, line) in enumerate(taken, 1):
        held += mib * MIB
        fields: dict[str, Any] = {"size_bytes": mib * MIB, "allocated": held, "launched": number}
        trace.add(Kind.ALLOCATE, "", "cuda:0", **fields, file="f", line=line)
    trace.add(Kind.OUT_OF_MEMORY, "", "cuda:0", size_bytes=50 * MIB, allocated=held, launched=99, file="f", line=9)
    return trace


@pytest.mark.parametrize(
    ("trace", "parts"),
    [
        (
            out_of_memory((10, 4), (2, 5), (30, 4), (1, 6), (1, 7), before=16),
            (
                "cuda:0 held 60.0",
                "40.0 MiB from line 4 (2 ",
                "2.00 MiB from line 5",
                "1.00 MiB from line 6",
                "16.0 MiB",
            ),
        ),
        (out_of_memory((10, None)), ("held 10.0 MiB: 10.0 MiB",)),
        (out_of_memory(before=3), ("held 3.00 MiB: 3.00 MiB",)),
        (out_of_memory(), ("cuda:0", "50.0 MiB")),
        (Trace(), ()),
        (None, ()),
    ],
)
def test_memory_that_ran_out_is_listed_by_line(trace: Trace | None, parts: tuple[str, ...]) -> None:
    advice = finding_of("OutOfMemoryError", "CUDA out of memory", "out of memory", 9, trace).advice
    general = finding_of("OutOfMemoryError", "CUDA out of memory", "out of memory", 9).advice
    assert advice.endswith(general)
    assert (advice == general) is not bool(parts)
    assert [part for part in parts if part not in advice] == []


HEAD = "import os, torch\nimport numpy as np\n\n\n"
BROKEN = "broken = torch.nn.Linear(1, 1)\ndel vars(broken)['_modules']\n\n\n"
DOUBLED = "np.full(3, 2 * drawn['number'], dtype=np.float32)"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("return torch.zeros(1).expand(10**11)", "400,000,000,000"),
        ("return [torch.zeros(()) for _ in range(5000)]", "4,096 tensors"),
        ("return 1 << 5000", "4,096 bits"),
        ("return broken", "KeyError: '_modules'"),
        ("return torch.zeros(2).to_sparse()", "torch.sparse_coo"),
        ("return torch.zeros(2).to(torch.float8_e4m3fn)", "torch.float8_e4m3fn"),
        ("return {'a': [torch.zeros(2, dtype=torch.uint16)]}", "torch.uint16"),
        ("return torch.zeros(2, dtype=torch.complex32)", "torch.complex32"),
        ("return torch.zeros(2, device='meta')", ""),
        ("return torch.nested.nested_tensor([torch.zeros(2)])", ""),
        ("return torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8)", "torch.qint8"),
        ("return np.zeros(2, np.uint16)", "NumPy array of uint16"),
        ("return np.array([object()])", "NumPy array of object"),
        ("return np.array(['text'])", "NumPy array of <U4"),
        ("box['net'] = broken", "KeyError: '_modules'"),
        ("box[10**5000] = 1", "ValueError"),
        ("box['x'] = torch.zeros(2).to_sparse()", ""),
        ("box['box'] = box", "nested"),
        ("box['many'] = [0] * 300_000", "parts"),
    ],
)
def test_a_result_or_an_argument_that_cannot_be_sent_fails(
    grade: Grade, exercise_folder: Path, statement: str, words: str
) -> None:
    (exercise_folder / "given.py").write_text(
        "import torch\n\n\ndef draw(seed, case):\n    return {'box': {'x': torch.ones(2)}}\n"
    )
    report = grade(f"{HEAD}{BROKEN}def twice(box):\n    {statement}\n")
    check, got, _ = failure(report)
    assert (report.outcome, check) == (Outcome.FAILED, "runs")
    assert words in got


@pytest.mark.parametrize(
    ("statement", "expected", "result"),
    [
        ("torch.set_default_device('cuda')", DOUBLED, "np.full(3, 2.0 * number, np.float32)"),
        ("torch.set_default_dtype(torch.float64)", DOUBLED, "np.full(3, 2.0 * number, np.float32)"),
        ("", "np.arange(3, dtype=np.float32)", "np.arange(3, dtype=np.float32).astype('>f4')"),
    ],
    ids=["default device", "default dtype", "byte order"],
)
def test_arrays_keep_their_values(
    grade: Grade, exercise_folder: Path, statement: str, expected: str, result: str
) -> None:
    (exercise_folder / "checks.py").write_text(
        "import numpy as np\nfrom gpututor.checks import value\n\n"
        f"checks = [value(lambda drawn, machine: {expected})]\n"
    )
    report = grade(f"{HEAD}{statement}\n\n\ndef twice(number):\n    return {result}\n")
    assert report.outcome is Outcome.PASSED, report.first_failure


def test_a_forged_answer_with_huge_shapes_is_refused_quickly(grade: Grade) -> None:
    report = grade(
        "import os, json, struct\n\n\ndef twice(number):\n"
        "    fact = dict(type_name='Tensor', shape=[10**4000] * 5000, dtype='float32', device='cpu', strides=[],\n"
        "                offset=0, identity='1', storage='1', requires_grad=False, is_leaf=True, pinned=False,\n"
        "                layout='strided')\n"
        "    node = {'k': 'tensor', 'fact': fact, 'buffer': 0, 'grad': None}\n"
        f"    trace = {EMPTY_TRACE!r}\n"
        "    import sys\n    sys.set_int_max_str_digits(0)\n"
        "    answer = {'event': 'returned', 'output': node, 'arguments': {}, 'buffers': [4], 'trace': trace}\n"
        "    text = json.dumps(answer).encode()\n"
        "    for descriptor in range(3, 32):\n        try:\n"
        "            os.write(descriptor, struct.pack('>4sI', b'GPT1', len(text)) + text + bytes(4))\n"
        "        except OSError:\n            pass\n    return 0\n"
    )
    assert report.outcome in (Outcome.NEEDS_REVIEW, Outcome.TIMEOUT)
    assert report.elapsed_s < 30


@pytest.mark.parametrize("gpus", [0, 1])
def test_too_few_gpus_for_a_scenario_are_not_gradable(grade: Grade, exercise_folder: Path, gpus: int) -> None:
    append(exercise_folder / "exercise.toml", '[[scenario]]\nname = "two GPUs"\ngpus = 2\n')
    report = grade(RIGHT, gpus=gpus)
    assert report.outcome is Outcome.NOT_GRADABLE_HERE
    assert f"2 GPUs, not {gpus}" in report.reason


def test_an_error_has_its_call_and_the_line_of_its_return(grade: Grade) -> None:
    report = grade("def twice(number):\n    if number:\n        return 0\n    return 2 * number\n", seed=1)
    assert failure(report)[2] == 3
    report = grade("def twice(number):\n    return [0, 0, 0, 0][number]\n", seed=2)
    _, got, line = failure(report)
    assert "call 2 of 3" in got
    assert line == 2


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_are_counted_as_python_counts_them(grade: Grade, end: str) -> None:
    lines = ["odd = '\x1c \u2028 \x85'", "\x0c", "def twice(number):", "    if number:", "        return 0"]
    wrong = grade(end.join([*lines, ""]), seed=1)
    right = grade(end.join([*lines[:3], "    import torch", "    return int(torch.tensor(number).cuda() * 2)", ""]))
    assert failure(wrong)[2] == 5
    assert right.outcome is Outcome.PASSED, right.suspicions


@pytest.mark.parametrize(
    ("body", "advice"),
    [("input()", "input()"), ("raise NotImplementedError('The virtual GPU cannot do that.')", "another call")],
)
def test_advice_is_about_the_mistake(grade: Grade, body: str, advice: str) -> None:
    first = grade(f"def twice(number):\n    {body}\n").first_failure
    assert first is not None
    assert advice in first.advice


@pytest.mark.parametrize("version", [None, "0.1"])
def test_a_package_that_is_missing_or_too_old_is_not_gradable(
    exercise_folder: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    append(exercise_folder / "exercise.toml", 'packages = ["triton"]\n')
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: version if name == "triton" else real(name))
    monkeypatch.setattr(metadata, "version", lambda name: version)
    # No worker is taken, so that nothing of the pool but its isolation is read.
    pool: Any = SimpleNamespace(isolation="none")
    report = grader.grade(GradeRequest(str(exercise_folder), RIGHT, "twice.py"), pool, lambda event: None)
    assert report.outcome is Outcome.NOT_GRADABLE_HERE
    assert 'pip install "gpututor[triton]"' in report.reason
