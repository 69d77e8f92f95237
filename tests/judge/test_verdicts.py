"""Verdicts: points held back for wrong values, and checks of traces, arguments and work from end to end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from gpututor.checks import measurement, overlap, parity, speed
from gpututor.checks.model import Call, Check, CheckKind, Run, Span
from gpututor.checks.work import reference_flops
from gpututor.course.loader import load_course
from gpututor.errors import CourseError
from gpututor.grading.client import GradingClient
from gpututor.grading.report import Outcome, Status, Verdict
from gpututor.judge.verdicts import with_held_back
from gpututor.paths import builtin_course
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import GPU, NO_GPU, SOURCE
from tests.support.gradings import Grade, failure, grade_in
from tests.support.tiny_course import RIGHT, append, write_files

PASSED, FAILED, HELD, NOT_RUN = Status.PASSED, Status.FAILED, Status.HELD_BACK, Status.NOT_RUN
REVIEW, SLOW = Status.NEEDS_REVIEW, Status.TOO_SLOW
ZEROS = {
    "tensors_on_the_device/born_on_the_device": "(height, width, device):\n"
    "    return torch.zeros(height, width, 2, device=device)\n",
    "tensors_on_the_device/same_device": "(table, queries):\n"
    "    larger = table if table.nbytes >= queries.nbytes else queries\n"
    "    return torch.zeros(len(table), len(queries), device=larger.device)\n",
    "keep_the_data_moving/hidden_syncs": "(batches, weights):\n    return torch.zeros(2)\n",
}


def judged(*rows: tuple[CheckKind, Status]) -> list[Status]:
    """Return the statuses of verdicts after holding back points."""
    pairs = []
    for number, (kind, status) in enumerate(rows):
        check = Check(f"check {number}", lambda _: "It holds", lambda run: None, kind=kind)
        points = 1.0 if status is PASSED else 0.0
        pairs.append((check, Verdict(check.name, "It holds", status, "one GPU", points=points, of=1.0)))
    verdicts = list(with_held_back(pairs))
    assert [verdict.check for verdict in verdicts] == [check.name for check, _ in pairs]
    assert all(verdict.points == 0 for verdict in verdicts if verdict.status is not PASSED)
    return [verdict.status for verdict in verdicts]


@pytest.mark.parametrize(
    ("rows", "statuses"),
    [
        ((("structure", PASSED), ("other", PASSED), ("values", PASSED)), [PASSED, PASSED, PASSED]),
        ((("structure", PASSED), ("other", PASSED), ("values", FAILED)), [HELD, HELD, FAILED]),
        ((("structure", PASSED), ("other", FAILED), ("values", FAILED)), [HELD, FAILED, FAILED]),
        ((("structure", FAILED), ("other", PASSED), ("values", NOT_RUN)), [FAILED, HELD, NOT_RUN]),
        ((("structure", FAILED), ("other", PASSED), ("values", PASSED)), [FAILED, HELD, PASSED]),
        ((("values", PASSED), ("values", FAILED), ("other", PASSED)), [PASSED, FAILED, HELD]),
        ((("values", PASSED), ("other", FAILED), ("other", SLOW), ("other", PASSED)), [PASSED, FAILED, SLOW, PASSED]),
        ((("values", REVIEW), ("other", PASSED)), [REVIEW, PASSED]),
        ((("structure", REVIEW), ("values", NOT_RUN), ("other", PASSED)), [REVIEW, NOT_RUN, PASSED]),
        ((("other", FAILED), ("values", NOT_RUN), ("structure", PASSED)), [FAILED, NOT_RUN, HELD]),
        ((("other", PASSED), ("other", FAILED)), [PASSED, FAILED]),
    ],
)
def test_points_are_held_back_if_the_values_are_wrong(
    rows: tuple[tuple[CheckKind, Status], ...], statuses: list[Status]
) -> None:
    assert judged(*rows) == statuses


def test_a_verdict_names_the_failed_checks_that_hold_it_back() -> None:
    rows: tuple[tuple[str, CheckKind, Status], ...] = (
        ("Agrees", "values", PASSED),
        ("Copies", "other", PASSED),
        ("Shape", "structure", FAILED),
        ("Ratio", "values", SLOW),
        ("Sum", "values", NOT_RUN),
    )
    pairs = [
        (Check(name, lambda _: "It holds", lambda run: None, kind=kind), Verdict(name, name, status, "one GPU"))
        for name, kind, status in rows
    ]
    assert [verdict.why for verdict in with_held_back(pairs)][:2] == ["", "held back until these pass: Shape; Ratio"]
    assert next(with_held_back([pairs[1], pairs[4]])).why == "held back until this passes: Sum"


def test_a_check_has_a_known_kind() -> None:
    check = Check("mine", lambda _: "It holds", lambda run: None)
    assert (check.kind, check.with_kind("values").kind) == ("other", "values")
    with pytest.raises(CourseError, match="kind="):
        check.with_kind("value")  # type: ignore[arg-type]


SCENARIO_CHECKS = """\
from gpututor.checks import source, value
from gpututor.checks.model import Check


def expected(drawn, machine):
    return 2 * drawn["number"] if machine.gpus else 0


checks = [
    source(forbid=("eval",)).with_points(2),
    Check("idle", lambda machine: "It launches nothing", lambda run: None),
    value(expected).with_points(3),
]
"""
TWO_SCENARIOS = '\n[[scenario]]\nname = "one GPU"\ngpus = 1\n\n[[scenario]]\nname = "no GPU"\ngpus = 0\n'


def test_zeros_that_are_right_in_one_scenario_earn_nothing(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text(SCENARIO_CHECKS)
    append(exercise_folder / "exercise.toml", TWO_SCENARIOS)
    report = grade("def twice(number):\n    return 0\n", device="virtual")
    statuses = [(verdict.scenario, verdict.status) for verdict in report.verdicts if verdict.of]
    assert statuses == [
        *(("one GPU", HELD), ("one GPU", HELD), ("one GPU", FAILED)),
        *(("no GPU", PASSED), ("no GPU", PASSED), ("no GPU", PASSED)),
    ]
    assert (report.outcome, report.points, report.of, report.final) == (Outcome.FAILED, 0, 6, True)
    assert failure(report)[0] == "value"


@pytest.mark.parametrize("key", ZEROS)
def test_zeros_of_the_right_shape_earn_nothing_in_the_course(client: GradingClient, key: str) -> None:
    exercise = next(each for each in load_course(builtin_course()).exercises if each.key == key)
    source = f"import torch\n\n\ndef {exercise.entry}{ZEROS[key]}"
    report = grade_in(client, exercise.folder, source, device="virtual")
    assert (report.outcome, report.points) == (Outcome.FAILED, 0)
    assert HELD in {verdict.status for verdict in report.verdicts}


STEP_GIVEN = """\
import torch
from torch import nn


def draw(seed, case):
    chance = torch.Generator().manual_seed(seed * 10 + case)
    return {"weight": torch.randn(1, 3, generator=chance), "x": torch.randn(4, 3, generator=chance)}


def build(drawn, device):
    model = nn.Linear(3, 1, bias=False)
    model.load_state_dict({"weight": drawn["weight"]})
    model.to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return {"model": model, "optimiser": optimiser, "x": drawn["x"].to(device)}
"""
STEP_CHECKS = """\
from gpututor.checks import after_call, syncs, transfers, unmodified


def left(weight, x):
    gradient = 2 * (x @ weight.T * x).mean(0, keepdim=True)
    return {
        "model.weight": weight - 0.1 * gradient,
        "model.weight.grad": gradient,
        "optimiser.state.0.momentum_buffer": gradient,
    }


checks = [unmodified(may_change=("model",)), after_call(left), transfers(to_device=0, to_host=0), syncs(at_most=0)]
"""
STEP = """\
def twice(model, optimiser, x):
    model(x).square().mean().backward()
    optimiser.step()
"""


@pytest.fixture
def training(exercise_folder: Path) -> None:
    write_files(exercise_folder, {"given.py": STEP_GIVEN, "checks.py": STEP_CHECKS, "solution.py": STEP})


@pytest.mark.usefixtures("training")
@pytest.mark.parametrize(
    ("submission", "failed"),
    [
        (STEP, set()),
        (f"{STEP}    optimiser.zero_grad()\n", {"after_call"}),
        (STEP.replace("    optimiser.step()\n", ""), {"after_call"}),
        (f"{STEP}    optimiser.state.clear()\n", {"after_call"}),
        (f"{STEP}    del model.weight\n    model.weight = None\n", {"after_call", "unmodified"}),
    ],
    ids=["a step", "gradients dropped", "no step", "no momentum", "no weight"],
)
def test_the_state_of_arguments_after_the_call_is_graded(grade: Grade, submission: str, failed: set[str]) -> None:
    report = grade(submission)
    wrong = {verdict.check for verdict in report.verdicts if verdict.status.is_failure}
    assert wrong - {"unmodified"} == failed - {"unmodified"}, report.reason
    assert report.outcome is (Outcome.FAILED if failed else Outcome.PASSED)


@pytest.mark.usefixtures("training")
def test_arguments_that_grow_too_large_fail(grade: Grade, exercise_folder: Path) -> None:
    append(exercise_folder / "exercise.toml", "[limits]\nresult_mib = 1\n")
    report = grade(f"{STEP}    model.register_buffer('huge', x.new_zeros(1 << 20))\n")
    assert (report.outcome, failure(report)[0]) == (Outcome.FAILED, "runs")


GIVEN = """
import torch

def draw(seed, case):
    return {"x": torch.rand(64, 64, generator=torch.Generator().manual_seed(seed + case)) + 1}

def build(drawn, device):
    return {"number": drawn["x"].to(device)}
"""


IN_PIECES = """
import torch

def twice(number):
    return torch.stack([2 * row for row in number])
"""
KEEPING = "kept = []\n\ndef twice(number):\n    kept.append(2 * number)\n    return kept[-1]\n"
IN_HALF = "def twice(number):\n    return (number.half() @ (2 * number.new_ones(64).diag()).half()).float()\n"
BY_PRODUCT = "def twice(number):\n    return number @ (2 * number.new_ones(64).diag())\n"
ROUNDABOUT = "def twice(number):\n    return 2 * number.cpu().to(number.device)\n"


RACING = """
import torch

def twice(number):
    side = torch.cuda.Stream()
    result = torch.zeros_like(number)
    with torch.cuda.stream(side):
        result.add_(number)
    return result + number
"""
WRITING = "def twice(number):\n    result = 2 * number\n    number.zero_()\n    return result\n"
DOUBLE = "parity(lambda x: 2 * x)"


@pytest.mark.parametrize(
    ("check", "right", "wrong", "figure", "line"),
    [
        ("memory(peak=1 << 14)", RIGHT, IN_PIECES, "49,152 bytes", 5),
        ("memory(peak_ratio=1.5)", RIGHT, IN_PIECES, "49,152 bytes", 5),
        ("memory(left=0)", RIGHT, KEEPING, "16,384 bytes", 4),
        ("launches(1)", RIGHT, IN_PIECES, "aten::mul 64 times", 5),
        ("precision({'aten::mm': 'float16'})", IN_HALF, BY_PRODUCT, "1 of 1 in float32", 2),
        ("precision(half_share=0.9)", IN_HALF, BY_PRODUCT, "524,288", 2),
        ("syncs()", RIGHT, ROUNDABOUT, "`.cpu()` at line 2", 2),
        ("source(forbid=(called('cpu'),))", RIGHT, ROUNDABOUT, "number.cpu", 2),
        (f"races(), {DOUBLE}", RIGHT, RACING, ":6 ", 8),
        (f"unmodified, {DOUBLE}", RIGHT, WRITING, "number", 3),
    ],
)
def test_right_code_passes_and_its_twin_fails_at_its_line(
    grade: Grade, exercise_folder: Path, check: str, right: str, wrong: str, figure: str, line: int
) -> None:
    name = re.match(r"\w+", check)
    assert name is not None
    checks = check.removeprefix("unmodified, ")  # it is added to every exercise
    texts = {"given.py": GIVEN, "checks.py": f"from gpututor.checks import *\n\nchecks = [{checks}]\n"}
    write_files(exercise_folder, {**texts, "baseline.py": RIGHT})
    passed = grade(right)
    assert passed.outcome is Outcome.PASSED, passed
    assert (name[0] in {verdict.check for verdict in passed.verdicts}) is (checks == check)
    report = grade(wrong)
    failed, got, at = failure(report)
    assert (report.outcome, failed, at) == (Outcome.FAILED, name[0], line)
    assert figure in got


NEEDED = 2.0 * 8 * 8 * 8
DRAWN = {"a": torch.ones(8, 8)}
WORK_CHECKS = [parity(lambda a: a @ a), parity(lambda a: (a @ a) @ a, name="more")]


def call_with(on_device: float, on_host: float = 0.0, elapsed_ns: int = 100) -> Call:
    trace = Trace()
    for device, flops, line in (("cuda:0", on_device, 5), ("cpu", on_host, 6)):
        if flops:
            trace.add(Kind.KERNEL, "aten::mm", device, flops=flops, launched=0, start=0, end=50, file="f", line=line)
    return Call(DRAWN, {}, 1.0, trace, span=Span(0, 50, elapsed_ns))


def run_with(call: Call, *, baseline: float = NEEDED, machine: object = GPU) -> Run:
    run = Run(machine, (call,), SOURCE, "work", baselines={"baseline.py": (call_with(baseline, elapsed_ns=1000),)})  # type: ignore[arg-type]
    return Run(**{**vars(run), "reference_flops": reference_flops(WORK_CHECKS, run)})


def test_the_judge_counts_the_operations_of_the_reference() -> None:
    assert run_with(call_with(0)).reference_flops == (NEEDED,)
    assert reference_flops([], run_with(call_with(0))) == (0.0,)


def mixed(a: torch.Tensor) -> torch.Tensor:
    """Products that torch counts, and operators that it first takes apart."""
    attended = F.scaled_dot_product_attention(a[None], a[None], a[None])[0]
    filtered = F.conv1d(attended[None], torch.ones(4, 8, 3))[0].sum()
    (slope,) = torch.autograd.grad(F.linear(a.requires_grad_(), torch.ones(5, 8)).sum(), a)
    return filtered + torch.einsum("ij,kj->ik", slope, attended).sum() + (a @ a[0]).sum()


def test_operations_are_counted_as_torchs_counter_does() -> None:
    with FlopCounterMode(display=False) as theirs:
        mixed(DRAWN["a"].clone())
    assert theirs.get_total_flops() > 0
    assert reference_flops([parity(mixed)], run_with(call_with(0))) == (theirs.get_total_flops(),)


CHECKING = """
import sys
import torch
from gpututor.checks.work import _flops
from gpututor.judge.cross_checks import needed_bytes
drawn = {"a": torch.ones(8, 8)}
assert _flops(lambda a: a @ a, drawn) == 1024
assert needed_bytes(lambda a: a @ a, drawn) == {"a": 256}
print(sorted({"sympy", "torch._dynamo"} & set(sys.modules)))
"""


def test_the_judges_own_checks_import_no_compiler_and_no_sympy() -> None:
    done = subprocess.run([sys.executable, "-c", CHECKING], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("run", "is_missing"),
    [
        (run_with(call_with(NEEDED)), False),
        (run_with(call_with(0.9 * NEEDED)), False),
        (run_with(call_with(0.89 * NEEDED)), True),
        (run_with(call_with(0, on_host=NEEDED)), True),
        (run_with(call_with(0)), True),
        # An honest run of the author's needs less than the reference.
        (run_with(call_with(0.5 * NEEDED), baseline=0.5 * NEEDED), False),
        (run_with(call_with(0), machine=NO_GPU), False),
    ],
)
def test_speed_requires_the_work_on_the_devices(run: Run, is_missing: bool) -> None:
    finding = speed(1.25).find(run)
    assert (finding is not None) is is_missing
    if finding is not None:
        assert finding.status is Status.FAILED
        assert finding.line == 6


@pytest.mark.parametrize("check", [measurement(lambda call: 1.0), overlap(kernels=0.5)])
def test_other_checks_of_time_require_it_too(check: Check) -> None:
    finding = check.find(run_with(call_with(0, on_host=NEEDED)))
    assert finding is not None
    assert "FLOP" in finding.got


IN_NUMPY = """\
import numpy as np
import torch


def norms(matrices):
    hosts = [np.asarray(matrix.cpu()) for matrix in matrices]
    return torch.tensor([float(np.linalg.norm(host @ host)) for host in hosts])
"""


def test_norms_in_numpy_fail_for_their_speed(client: GradingClient) -> None:
    exercise = next(each for each in load_course(builtin_course()).exercises if each.slug == "one_thousand_norms")
    report = grade_in(client, exercise.folder, IN_NUMPY, device="virtual")
    statuses = {verdict.check: verdict.status for verdict in report.verdicts}
    assert (statuses["parity"], statuses["speed"]) == (PASSED, FAILED)
    assert report.outcome is Outcome.FAILED


CHAIN = (
    "    for _ in range(60):\n        product = number @ number\n        number = product / product.norm() * 16\n"
    "    return number\n"
)
CHAIN_CHECKS = (
    f"from gpututor.checks import parity, speed\n\n\ndef reference(x):\n    number = x\n{CHAIN}\n\n"
    "checks = [parity(reference, times=100), speed(1.25)]\n"
)
CHAIN_ON_DEVICE = f"def twice(number):\n{CHAIN}"
IN_NUMPY_CHAIN = CHAIN.replace("product.norm()", "np.linalg.norm(product)")
CHAIN_IN_NUMPY = (
    "import numpy as np\nimport torch\n\n\ndef twice(number):\n"
    "    device, number = number.device, number.cpu().numpy()\n"
    f"{IN_NUMPY_CHAIN.replace('return number', 'return torch.from_numpy(number).to(device)')}"
)


def test_sixty_products_in_numpy_fail_for_their_speed(grade: Grade, exercise_folder: Path) -> None:
    write_files(exercise_folder, {"given.py": GIVEN, "checks.py": CHAIN_CHECKS})
    write_files(exercise_folder, dict.fromkeys(("baseline.py", "solution.py"), CHAIN_ON_DEVICE))
    cheat, honest = (grade(source, device="virtual") for source in (CHAIN_IN_NUMPY, CHAIN_ON_DEVICE))
    assert honest.outcome is Outcome.PASSED, honest.verdicts
    assert (cheat.outcome, failure(cheat)[0]) == (Outcome.FAILED, "speed")
