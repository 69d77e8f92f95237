"""What a submission may return, do to the grader's files, or ask for: each is told in words, and nothing hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.grading.report import Outcome
from tests.support.gradings import EMPTY_TRACE, Grade, failure
from tests.support.tiny_course import RIGHT

HEAD = "import os, torch\nimport numpy as np\n\n\n"
BROKEN = "broken = torch.nn.Linear(1, 1)\ndel vars(broken)['_modules']\n\n\n"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("torch.zeros(1).expand(10**11)", "400,000,000,000 bytes; at most"),
        ("[torch.zeros(()) for _ in range(5000)]", "more than 4,096 tensors"),
        ("1 << 5000", "more than 4,096 bits"),
        ("broken", "the result cannot be brought back: KeyError: '_modules'"),
        ("torch.zeros(2).to_sparse()", "a torch.sparse_coo tensor cannot be brought back"),
        ("torch.zeros(2).to(torch.float8_e4m3fn)", "a torch.float8_e4m3fn tensor cannot be brought back"),
        ("{'a': [torch.zeros(2, dtype=torch.uint16)]}", "a torch.uint16 tensor cannot be brought back"),
        ("torch.zeros(2, dtype=torch.complex32)", "a torch.complex32 tensor cannot be brought back"),
        ("torch.zeros(2, device='meta')", "cannot be brought back"),
        ("torch.nested.nested_tensor([torch.zeros(2)])", "cannot be brought back"),
        (
            "torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8)",
            "a torch.qint8 tensor cannot be brought back",
        ),
        ("np.zeros(2, np.uint16)", "a NumPy array of uint16 cannot be compared"),
        ("np.array([object()])", "a NumPy array of object cannot be compared"),
        ("np.array(['text'])", "a NumPy array of <U4 cannot be compared"),
    ],
)
def test_a_result_that_cannot_be_compared_is_the_learners_and_told_so(grade: Grade, result: str, words: str) -> None:
    report = grade(f"{HEAD}{BROKEN}def twice(number):\n    return {result}\n")

    assert report.outcome is Outcome.FAILED
    check, got, _ = failure(report)
    assert check == "runs"
    assert words in got


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("box['net'] = broken", "an argument cannot be read any more: KeyError: '_modules'"),
        ("box[10**5000] = 1", "an argument cannot be read any more: ValueError: Exceeds the limit"),
        ("box['x'] = torch.zeros(2).to_sparse()", "an argument cannot be read any more: "),
        ("box['box'] = box", "an argument is nested too deeply"),
        ("box['many'] = [0] * 300_000", "an argument is nested too deeply or has too many parts"),
    ],
)
def test_an_argument_that_cannot_be_read_any_more_is_the_learners_doing_and_told_so(
    grade: Grade, exercise_folder: Path, statement: str, words: str
) -> None:
    (exercise_folder / "given.py").write_text(
        "import torch\n\n\ndef draw(seed, case):\n    return {'box': {'x': torch.ones(2)}}\n"
    )

    report = grade(f"{HEAD}{BROKEN}def twice(box):\n    {statement}\n    return 0\n")

    assert report.outcome is Outcome.FAILED
    check, got, _ = failure(report)
    assert check == "runs"
    assert words in got


@pytest.mark.parametrize("statement", ["torch.set_default_device('cuda')", "torch.set_default_dtype(torch.float64)"])
def test_what_a_learner_sets_as_default_harms_no_right_answer(
    grade: Grade, exercise_folder: Path, statement: str
) -> None:
    (exercise_folder / "checks.py").write_text(
        "import numpy as np\nfrom gpututor.checks import value\n\n"
        "checks = [value(lambda drawn, machine: np.full(3, 2 * drawn['number'], dtype=np.float32))]\n"
    )

    report = grade(f"{HEAD}{statement}\n\n\ndef twice(number):\n    return np.full(3, 2.0 * number, np.float32)\n")

    assert report.outcome is Outcome.PASSED, report.first_failure


def test_an_array_in_another_byte_order_has_its_own_values(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text(
        "import numpy as np\nfrom gpututor.checks import value\n\n"
        "checks = [value(lambda drawn, machine: np.arange(3, dtype=np.float32))]\n"
    )

    report = grade(f"{HEAD}def twice(number):\n    return np.arange(3, dtype=np.float32).astype('>f4')\n")

    assert report.outcome is Outcome.PASSED, report.first_failure


def test_a_forged_answer_with_endless_shapes_is_refused_at_once(grade: Grade) -> None:
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


def test_an_expression_too_deep_for_the_parser_is_a_syntax_error(grade: Grade) -> None:
    report = grade(f"x = {'-' * 100_000}1\n{RIGHT}")

    assert report.outcome is Outcome.ERROR
    assert "nested too deeply" in failure(report)[1]


def test_half_a_surrogate_pair_is_rejected(grade: Grade) -> None:
    report = grade(f"x = '\ud800'\n{RIGHT}")

    assert report.outcome is Outcome.REJECTED
    assert "surrogate" in report.reason


@pytest.mark.parametrize("gpus", [0, 1])
def test_fewer_gpus_than_a_scenario_needs_are_not_gradable(grade: Grade, exercise_folder: Path, gpus: int) -> None:
    with (exercise_folder / "exercise.toml").open("a") as manifest:
        manifest.write('[[scenario]]\nname = "two GPUs"\ngpus = 2\n')

    report = grade(RIGHT, gpus=gpus)

    assert report.outcome is Outcome.NOT_GRADABLE_HERE
    assert f"2 GPUs, not {gpus}" in report.reason


def test_the_line_is_that_of_the_return_that_was_taken(grade: Grade) -> None:
    report = grade("def twice(number):\n    if number:\n        return 0\n    return 2 * number\n", seed=1)

    assert failure(report)[2] == 3


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_are_counted_as_python_counts_them_whatever_ends_them(grade: Grade, end: str) -> None:
    lines = ["odd = '\x1c \u2028 \x85'", "\x0c", "def twice(number):", "    if number:", "        return 0"]

    wrong = grade(end.join([*lines, ""]), seed=1)
    right = grade(end.join([*lines[:3], "    import torch", "    return int(torch.tensor(number).cuda() * 2)", ""]))

    assert failure(wrong)[2] == 5
    assert right.outcome is Outcome.PASSED, right.suspicions


def test_a_misspelled_function_is_named_with_its_line(grade: Grade) -> None:
    check, got, line = failure(grade("\n\ndef twize(number):\n    return 2 * number\n"))

    assert (check, line) == ("loads", 3)
    assert "there is twize: is that a typing mistake?" in got


def test_an_error_tells_in_which_call_it_came(grade: Grade) -> None:
    report = grade("def twice(number):\n    return [0, 0, 0, 0][number]\n", seed=2)

    assert failure(report)[1] == "IndexError: list index out of range, at line 2 (call 2 of 3, with number=4)"


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ("import pandas", "Remove the import"),
        ("input()", "no keyboard"),
        ("nunber", "spelling"),
        ("raise NotImplementedError", "write the body"),
        ("raise NotImplementedError('The virtual GPU cannot do that.')", "another call that does the same"),
    ],
)
def test_what_to_try_fits_the_mistake(grade: Grade, body: str, advice: str) -> None:
    first = grade(f"def twice(number):\n    {body}\n").first_failure

    assert first is not None
    assert advice in first.advice
