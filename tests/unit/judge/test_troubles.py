"""The words for what went wrong in a submission."""

from __future__ import annotations

import pytest

from gpututor import paths
from gpututor.course.catalogue import load_course
from gpututor.judge.troubles import from_failure
from gpututor.wire.messages import Failure


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
    ],
)
def test_the_advice_for_an_exception_is_about_its_cause(type_name: str, message: str, advice: str) -> None:
    exercise = load_course(paths.builtin_course()).exercises[0]
    failure = Failure("exception", type_name, message, 1, "")
    finding = from_failure(failure, "runs", exercise, "pass\n", "").finding
    assert advice in finding.advice
    assert finding.got == f"{type_name}: {message}, at line 1"
