"""Submissions that tamper with what observes them: right answers all, and none passes."""

from __future__ import annotations

import pytest

from gpututor.grading.report import Outcome
from tests.support.gradings import Grade

HEAD = "import gc, sys, time, torch\n\nKEPT = []\n\n\n"
RIGHT = "    return 2 * number\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    torch.Tensor.cpu = lambda tensor: tensor\n", "torch.Tensor.cpu was replaced"),
        ("    torch.cuda.synchronize = lambda *_: None\n", "torch.cuda.synchronize was replaced"),
        ("    time.perf_counter = lambda: 0.0\n", "time.perf_counter was replaced"),
        ("    torch.allclose = lambda *_, **__: True\n", "torch.allclose was replaced"),
        (
            "    for one in gc.get_objects():\n        if type(one).__name__ == 'Recorder':\n"
            "            one.enabled = False\n",
            "recorder.enabled was replaced",
        ),
        (
            "    for name, module in list(sys.modules.items()):\n        if name.endswith('devices.recorder'):\n"
            "            module.Recorder.kernel.__code__ = (lambda *_, **__: -1).__code__\n",
            "devices.recorder.Recorder.kernel was replaced",
        ),
        (
            "    [one] = [one for one in gc.get_objects() if type(one).__name__ == 'Recorder' and one.enabled]\n"
            "    one.enabled = False\n    KEPT.append(torch.ones(1000, device='cuda'))\n    one.enabled = True\n",
            "memory of cuda:0",
        ),
    ],
)
def test_a_right_answer_beside_something_replaced_needs_review(grade: Grade, body: str, words: str) -> None:
    report = grade(f"{HEAD}def twice(number):\n{body}{RIGHT}")

    assert report.outcome is Outcome.NEEDS_REVIEW
    assert [suspicion for suspicion in report.suspicions if words in suspicion]
    assert not report.final


def test_a_wrong_answer_beside_something_replaced_fails(grade: Grade) -> None:
    report = grade(f"{HEAD}torch.Tensor.cpu = None\n\n\ndef twice(number):\n    return 0\n")

    assert report.outcome is Outcome.FAILED
    assert report.suspicions
