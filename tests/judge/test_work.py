"""A time counts only if the devices did the work: products on the host cost the modelled clock nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpututor.checks import measurement, overlap, parity, speed
from gpututor.checks.model import Call, Check, Run, Span
from gpututor.checks.work import reference_flops
from gpututor.course.loader import load_course
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome, Status
from gpututor.paths import builtin_course
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import GPU, NO_GPU, SOURCE
from tests.support.gradings import Grade

NEEDED = 2.0 * 8 * 8 * 8
DRAWN = {"a": torch.ones(8, 8)}
CHECKS = [parity(lambda a: a @ a), parity(lambda a: (a @ a) @ a, name="more")]


def call(on_device: float, on_host: float = 0.0, elapsed_ns: int = 100) -> Call:
    trace = Trace()
    for device, flops, line in (("cuda:0", on_device, 5), ("cpu", on_host, 6)):
        if flops:
            trace.add(Kind.KERNEL, "aten::mm", device, flops=flops, launched=0, start=0, end=50, file="f", line=line)
    return Call(DRAWN, {}, 1.0, trace, span=Span(0, 50, elapsed_ns))


def run_with(one: Call, *, baseline: float = NEEDED, machine: object = GPU) -> Run:
    run = Run(machine, (one,), SOURCE, "work", baselines={"baseline.py": (call(baseline, elapsed_ns=1000),)})  # type: ignore[arg-type]
    return Run(**{**vars(run), "reference_flops": reference_flops(CHECKS, run)})


def test_the_judge_counts_what_the_reference_needs_by_itself() -> None:
    assert run_with(call(0)).reference_flops == (NEEDED,)
    assert reference_flops([], run_with(call(0))) == (0.0,)


@pytest.mark.parametrize(
    ("run", "is_missing"),
    [
        (run_with(call(NEEDED)), False),
        (run_with(call(0.9 * NEEDED)), False),
        (run_with(call(0.89 * NEEDED)), True),
        (run_with(call(0, on_host=NEEDED)), True),
        (run_with(call(0)), True),
        # An honest run of the author's needs less than the reference.
        (run_with(call(0.5 * NEEDED), baseline=0.5 * NEEDED), False),
        (run_with(call(0), machine=NO_GPU), False),
    ],
)
def test_speed_needs_the_devices_to_have_done_the_work(run: Run, is_missing: bool) -> None:
    finding = speed(1.25).find(run)

    assert (finding is not None) is is_missing
    if finding is not None:
        assert finding.status is Status.FAILED
        assert finding.line == 6


@pytest.mark.parametrize("check", [measurement(lambda call: 1.0), overlap(kernels=0.5)])
def test_other_checks_of_time_need_it_too(check: Check) -> None:
    finding = check.find(run_with(call(0, on_host=NEEDED)))

    assert finding is not None
    assert "FLOP" in finding.got


IN_NUMPY = """\
import numpy as np
import torch


def norms(matrices):
    hosts = [np.asarray(matrix.cpu()) for matrix in matrices]
    return torch.tensor([float(np.linalg.norm(host @ host)) for host in hosts])
"""


def test_norms_in_numpy_do_not_pass_for_fast(client: GradingClient) -> None:
    exercise = next(each for each in load_course(builtin_course()).exercises if each.slug == "one_thousand_norms")

    *_, end = client.grade(GradeRequest(str(exercise.folder), IN_NUMPY, "norms.py", device="virtual"))

    assert isinstance(end, GradingFinished)
    statuses = {verdict.check: verdict.status for verdict in end.report.verdicts}
    assert statuses["parity"] is Status.PASSED
    assert statuses["speed"] is Status.FAILED
    assert end.report.outcome is Outcome.FAILED


PRODUCTS = {
    "given.py": """\
import torch


def draw(seed, case):
    generator = torch.Generator().manual_seed(seed * 10 + case)
    return {"number": torch.randn(256, 256, generator=generator) / 16}


def build(drawn, device):
    return {"number": drawn["number"].to(device)}
""",
    "checks.py": """\
from gpututor.checks import parity, speed


def reference(number):
    for _ in range(60):
        product = number @ number
        number = product / product.norm() * 16
    return number


checks = [parity(reference, times=100), speed(1.25)]
""",
    "baseline.py": "def twice(number):\n"
    "    for _ in range(60):\n"
    "        product = number @ number\n"
    "        number = product / product.norm() * 16\n"
    "    return number\n",
}
PRODUCTS_IN_NUMPY = """\
import numpy as np
import torch


def twice(number):
    host = number.cpu().numpy()
    for _ in range(60):
        product = host @ host
        host = product / np.linalg.norm(product) * 16
    return torch.from_numpy(host).to(number.device)
"""


def test_sixty_products_in_numpy_fail(grade: Grade, exercise_folder: Path) -> None:
    for name, text in PRODUCTS.items():
        (exercise_folder / name).write_text(text)
    (exercise_folder / "solution.py").write_text(PRODUCTS["baseline.py"])

    cheat = grade(PRODUCTS_IN_NUMPY, device="virtual")
    honest = grade(PRODUCTS["baseline.py"], device="virtual")

    assert honest.outcome is Outcome.PASSED, honest.verdicts
    first = cheat.first_failure
    assert first is not None, cheat.verdicts
    assert (first.check, first.status) == ("speed", Status.FAILED)
