"""The static reading notes names that no honest solution needs, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.grading.report import Outcome
from gpututor.grading.report_text import remarks
from gpututor.judge.source_review import MOST_NOTES, UNREADABLE, names_of, review, suspicions_in
from tests.hostile.members import FOLDER as HOSTILE
from tests.support.gradings import Grade
from tests.support.tiny_course import RIGHT

COURSE = load_course(paths.builtin_course())
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

NOTED = [
    ("import gc as g", "gc"),
    ("import gc.something", "gc"),
    ("from os import gc", "gc"),
    ("import torch\ntorch.nn.gc.get_objects()", "gc"),
    ("from sys import _getframe", "_getframe"),
    ("import sys\nsys._getframe().f_back", "_getframe f_back"),
    ("from sys import *", "sys.modules"),
    ("import sys as s\ns.modules['x']", "sys.modules"),
    ("import sys\nother = sys\nfor x in other.modules: pass", "sys.modules"),
    ("[__import__('sys')][0].modules.values()", "__import__ sys.modules"),
    ("import sys\ngetattr(sys, 'modules')", "sys.modules"),
    ("try:\n    f()\nexcept E as e:\n    e.__traceback__.tb_frame.f_locals", "__traceback__ tb_frame f_locals"),
    ("g = (i for i in x)\ng.gi_frame", "gi_frame"),
    ("import threading\nthreading.setprofile(f)", "setprofile"),
    ("import ctypes", "ctypes"),
    ("import cffi", "cffi"),
    ("from torch.utils.cpp_extension import load_inline", "torch.utils.cpp_extension"),
    ("import signal", "signal"),
    ("import subprocess\nsubprocess.signal.alarm(1)", "signal"),
    ("import inspect", "inspect"),
    ("import importlib.util", "importlib"),
    ("exec('x = 1')", "exec"),
    ("run = eval", "eval"),
    ("def f(run=compile): pass", "compile"),
    ("from re import compile\ncompile('x')\ndel compile", "compile"),
    ("import pickle\npickle.loads(b'')", "pickle.loads"),
    ("globals()['x']", "globals"),
    ("locals", "locals"),
    ("vars(x)", "vars"),
    ("__builtins__['eval']", "__builtins__"),
    ("import builtins\nbuiltins.eval('1')", "builtins"),
    ("x = getattr", "getattr"),
    ("map(getattr, a, b)", "getattr"),
    ("setattr(a, name, 1)", "setattr"),
    ("delattr(a, '_host')", "_host"),
    ("getattr(a, '_' + 'host')", "getattr"),
    ("getattr(a, '_host')", "_host"),
    ("a._host", "_host"),
    ("a._host = b", "_host"),
    ("del a._host", "_host"),
    ("match a:\n    case Tensor(_host=x): pass", "_host"),
    ("class A:\n    def f(self):\n        return self._host", "_host"),
    ("class A:\n    def f(self, other):\n        return super(B, other)._host", "_host"),
    ("a.__class__ = B", "__class__"),
    ("a.__class__.__subclasses__()", "__class__ __subclasses__"),
    ("f.__globals__", "__globals__"),
    ("f.__closure__[0]", "__closure__"),
    ("f.__code__", "__code__"),
    ("self.__dict__", "__dict__"),
    ("object.__getattribute__(a, '_host')", "__getattribute__"),
    ("import operator\noperator.attrgetter('x._host')(a)", "_host"),
    ("from operator import attrgetter as of\nof(name)", "attrgetter"),
    ("import string\nstring.Formatter().get_field('0._host', [a], {})", "get_field"),
    ("from torch._C import _get_tracing_state", "_C _get_tracing_state"),
    ("open('/proc/self/mem')", "/proc"),
    ("import gpututor", "gpututor"),
    ("from gpututor.devices import virtual", "gpututor"),
    ("x = 'gpututor.devices.recorder'", "gpututor"),
]

CLEAN = [
    "import torch\ntorch.compile(f)\nmodel.eval()\nmodel.modules()\nfor m in self.modules(): m.train()",
    "import re\nre.compile('x').match(y)\nfrom re import compile\ncompile('x')",
    "def compile(x): return x\ncompile(1)",
    "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self._scale = 1\n"
    "        self.register_buffer('_mask', m)\n    def forward(self, x):\n        return self._half(x) * self._scale\n"
    "    def _half(self, x):\n        return x[self._mask], self._parameters, self.__class__.__name__\n",
    "class A(nn.Module):\n    def __getattr__(self, name):\n        return super().__getattr__(name)\n",
    "if __name__ == '__main__':\n    print(f.__name__, len(x), type(x).__name__, torch.__version__, f.__doc__)",
    "_cache = {}\n_, rest = pair\nfor _ in range(3): _cache[rest] = 1",
    "point._replace(x=1)\npoint._asdict()",
    "torch._foreach_mul_(velocity, 0.9)\nnorms = torch._foreach_norm(gradients)",
    "getattr(torch, 'float32')\nhasattr(a, name)\nsetattr(module, 'weight', w)",
    "from scipy import signal\nimport torch\ntorch.signal.windows.hann(3)\nbatch.signal\nresponse.code",
    "import operator, sys, os, threading, atexit\nsys.path, sys.stdout.write('x'), operator.attrgetter('x.y')(a)",
    "import builtins\nprint = builtins.print",
    '"""For gpututor, and gpututor.devices too; gpututor.x."""\n# gpututor.devices\n',
    "from __future__ import annotations\nopen('/proc/meminfo')",
]


@pytest.mark.parametrize(("source", "names"), NOTED)
def test_a_name_that_no_honest_solution_needs_is_noted(source: str, names: str) -> None:
    assert names_of(source) == set(names.split())


@pytest.mark.parametrize("source", CLEAN)
def test_honest_code_has_no_notes(source: str) -> None:
    assert review(source) == ()


def test_notes_have_lines_allowed_names_none_and_nothing_breaks() -> None:
    source = "import torch\nimport gc\n\ngc.collect()\ntensor._host\n"
    assert [(note.line, note.name) for note in review(source)] == [(2, "gc"), (5, "_host")]
    assert [note.name for note in review(source, ["gc"])] == ["_host"]
    assert review("def :\n") == ()
    assert [note.name for note in review("x = " + "-" * 100_000 + "1")] == [UNREADABLE]
    assert [note.name for note in review("x = a" + ".b" * 100_000)] == [UNREADABLE]
    assert len(review("\n".join(f"a._x{number}" for number in range(1000)))) == MOST_NOTES


def test_all_honest_files_of_the_course_and_the_suite_are_clean() -> None:
    noted: dict[str, set[str]] = {}
    for exercise in COURSE.exercises:
        own = names_of(exercise.starter).union(exercise.allowed_names)
        for path in (exercise.folder / "solution.py", *exercise.right_solutions):
            noted[str(path)] = {note.name for note in review(path.read_text(encoding="utf-8"), own)}
    for path in HOSTILE.glob("honest/*.py"):
        noted[str(path)] = set(names_of(path.read_text(encoding="utf-8")))
    for lesson in COURSE.lessons:
        allowed = {name for exercise in lesson.exercises for name in exercise.allowed_names}
        noted[lesson.slug] = {name for block in _BLOCK.findall(lesson.text) for name in names_of(block)} - allowed
    assert len(noted) > 80
    assert {path: names for path, names in noted.items() if names} == {}


def test_noted_files_are_reviewed_for_classes_and_the_graders_name_always(grade: Grade) -> None:
    source = f"import gc\n{RIGHT}"
    for_class, for_learner = grade(source, reviews_source=True), grade(source)

    assert for_class.outcome is Outcome.NEEDS_REVIEW
    assert not for_class.final
    assert for_learner.outcome is Outcome.PASSED
    assert for_learner.suspicions == ()
    for report in (for_class, for_learner):
        assert [(note.line, note.name) for note in report.source_notes] == [(1, "gc")]
        assert len(remarks(report)) == 1
    assert grade(f"import gpututor.errors\n{RIGHT}").outcome is Outcome.NEEDS_REVIEW
    notes = review("import gc\nimport gpututor\n")
    assert len(suspicions_in(notes, all_count=False)) == 1
    assert len(suspicions_in(notes, all_count=True)) == 2


def test_names_of_the_starter_and_of_the_manifest_are_allowed(grade: Grade, exercise_folder: Path) -> None:
    starter, manifest = exercise_folder / "starter.py", exercise_folder / "exercise.toml"
    starter.write_text(f"import inspect\n{starter.read_text()}")
    manifest.write_text(f'allowed_names = ["gc"]\n{manifest.read_text()}')
    report = grade(f"import gc\nimport inspect\nimport signal\n{RIGHT}", reviews_source=True)
    assert [note.name for note in report.source_notes] == ["signal"]
