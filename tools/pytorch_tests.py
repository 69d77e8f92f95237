"""Run PyTorch's own CUDA tests on the virtual GPU, and count how they end.

    apt-get source --download-only pytorch     # Debian, with a `deb-src` line: 27 MB
    python tools/pytorch_tests.py unpack pytorch_2.6.0+dfsg.orig.tar.xz FOLDER
    python tools/pytorch_tests.py run FOLDER [SUITE …] [--minutes M] [--only WORDS] [--on-cpu]
    python tools/pytorch_tests.py times GPU.json CPU.json
    python tools/pytorch_tests.py samples float16 bfloat16 complex64 int64 [--each N] [--minutes M]

`unpack` writes only the `test` folder of the archive. `run` prints a line for each suite of `pytorch_tests.toml`, with
its failures by the reasons in that file. `--json FILE` writes every result after each slice; with the same file, a
later run continues. Tests run in slices, each in a process of its own. So a test that hangs or ends its process does
not affect other slices. A suite that runs out of time reports the number of tests left. `times` compares the processor
time of two runs, with and without `--on-cpu`. `samples` compares each operator's first samples with the CPU, forward
and backward.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from time import process_time  # bound here: a machine replaces that of `time`
from types import FrameType
from typing import Any

import pytest

TABLE = Path(__file__).with_suffix(".toml")
SLICE = 300
"""Tests in a process."""
_RESULTS, _SECONDS, _DEADLINE = "PYTORCH_TESTS_RESULTS", "PYTORCH_TESTS_SECONDS", "PYTORCH_TESTS_DEADLINE"
_PATIENCE = 10
"""Real seconds allowed for each second of a test's processor time, because other programs run too."""
_ERROR = re.compile(r"^E +(\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Suite:
    """A test file of PyTorch, or a part of it."""

    name: str
    file: str
    select: str = ""
    """pytest's `-k` expression."""
    gpus: int = 1
    model: str = "T4"
    timeout_s: int = 60
    """Seconds of processor time for one test."""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The end of one test."""

    test: str
    outcome: str
    """`passed`, `failed` or `skipped`."""
    message: str = ""
    seconds: float = 0.0
    """Processor time."""


@dataclass(frozen=True)
class Reason:
    """A row of the table: the reason of the failures that match it."""

    kind: str
    """`internal`, `drift`, `unsupported` or `timeout`; pytorch_tests.toml explains them."""
    why: str
    tests: str = ""
    message: str = ""

    def explains(self, result: Result) -> bool:
        """Return True if the reason's patterns match the test's name and its error."""
        return bool(re.search(self.tests, result.test) and re.search(self.message, result.message, re.DOTALL))


def suites() -> dict[str, Suite]:
    """Return the suites by name, in the order of the table."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: Suite(name, **row) for name, row in table["suites"].items()}


def reasons() -> list[Reason]:
    """Return the rows that sort failures; the first that matches counts."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [Reason(**row) for row in table["reasons"]]


def kind_of(result: Result, table: Sequence[Reason]) -> str:
    """Return the kind of the first reason that explains a failure; `wrong` without a reason."""
    return next((reason.kind for reason in table if reason.explains(result)), "wrong")


def unpack(archive: Path, folder: Path) -> int:
    """Write the archive's `test` folder into `folder`; return the number of files."""
    count = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            _, _, inner = member.name.partition("/")
            if member.isfile() and inner.startswith("test/"):
                member.name = inner
                tar.extract(member, folder, filter="data")
                count += 1
    return count


# The same file is a plugin of the pytest processes that run the tests. It gives PyTorch's test helpers the names that
# PyTorch 2.6 has for them, limits each test's processor time, and writes a line for each result.
def pytest_collection() -> None:
    if _RESULTS in os.environ:
        _add_names_of_2_6()


def _add_names_of_2_6() -> None:
    """Add names that PyTorch 2.6's tests import, and that later versions have moved or renamed."""
    import torch
    from torch.testing._internal import common_cuda, common_device_type, common_mkldnn, common_nn
    from torch.testing._internal import common_methods_invocations as invocations

    def add(module: Any, name: str, value: Any) -> None:
        if not hasattr(module, name):
            setattr(module, name, value)

    add(common_cuda, "tf32_is_not_fp32", torch.cuda.is_tf32_supported)
    add(common_mkldnn, "bf32_on_and_off", getattr(common_mkldnn, "reduced_f32_on_and_off", None))
    add(common_nn, "new_module_tests", getattr(common_nn, "get_new_module_tests", list)())
    for name in ("skip", "xfail"):
        add(invocations, name, getattr(common_device_type, name, None))
    add(invocations, "skipOps", lambda _suite, _test, to_skip: common_device_type.skipOps(to_skip))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test's processor time, and fail it if it takes more than its suite allows."""
    if _SECONDS not in os.environ:
        return (yield)
    seconds, began = float(os.environ[_SECONDS]), process_time()

    def fail(_number: int, _frame: FrameType | None) -> None:
        pytest.fail(f"more than {seconds:g} s of processor time")

    signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        item.user_properties.append((_SECONDS, process_time() - began))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop before the next test once the suite's minutes are over."""
    result = yield
    if time.monotonic() > float(os.environ.get(_DEADLINE, "inf")):
        item.session.shouldstop = "the suite's minutes are over"
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = os.environ.get(_RESULTS)
    if path is None or (report.when != "call" and report.outcome == "passed"):
        return
    expected = hasattr(report, "wasxfail")
    outcome = "passed" if expected and report.outcome == "skipped" else report.outcome
    errors = _ERROR.findall(report.longreprtext) if outcome == "failed" else []
    message = "\n".join(errors[:20]) or report.longreprtext[-500:]
    with open(path, "a", encoding="utf-8") as file:
        seconds = dict(report.user_properties).get(_SECONDS, 0.0)
        file.write(json.dumps([report.nodeid, outcome, message if outcome != "passed" else "", seconds]) + "\n")


def _on_cpu(words: str) -> str:
    """Return the names of tests of CUDA as those of the CPU, in lower case: -k ignores it."""
    return words.lower().replace("cuda", "cpu")


class Runner:
    """Runs one suite in slices."""

    def __init__(self, suite: Suite, folder: Path, scratch: Path, *, on_cpu: bool) -> None:
        self._suite, self._on_cpu = suite, on_cpu
        self._folder = folder / "test"
        self._results = scratch / f"{suite.name}.jsonl"
        device = "cpu" if on_cpu else "cuda"
        for folder_name in ("barrier", "test_dir", "init_dir"):
            (scratch / folder_name).mkdir(exist_ok=True)
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(self._folder)]),
            "PYTORCH_TESTING_DEVICE_ONLY_FOR": device,
            "PYTORCH_TEST_WITH_SLOW": "0",
            "CI": "",
            "PYTEST_ADDOPTS": "",  # the user's options, such as -v, change what `collect` reads
            "TEMP_DIR": str(scratch),  # where the processes of test_distributed meet
            **suite.environment,
            _RESULTS: str(self._results),
            _SECONDS: str(suite.timeout_s),
        }
        machine = [] if on_cpu else [f"--virtual-gpus={suite.gpus}", f"--virtual-gpu-model={suite.model}"]
        self._command = [sys.executable, "-m", "pytest", "-p", "pytorch_tests", "--noconftest", "-q", *machine]
        self._command += ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", "--disable-warnings"]

    def collect(self, only: str) -> list[str]:
        """Return the ids of the suite's tests. Raises `RuntimeError` with pytest's output if it cannot read them."""
        select = _on_cpu(self._suite.select) if self._on_cpu else self._suite.select
        words = [f"({word})" for word in (select, only) if word]
        options = ["-k", " and ".join(words)] if words else []
        command = [*self._command, "--collect-only", *options, self._suite.file]
        done = subprocess.run(command, cwd=self._folder, env=self._environment, capture_output=True, text=True)
        tests = [line for line in done.stdout.splitlines() if "::" in line and not line.startswith(("ERROR", " "))]
        if not tests and done.returncode != 5:
            raise RuntimeError(f"{self._suite.file} cannot be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return tests

    def run(self, tests: Sequence[str], deadline: float) -> Iterator[list[Result]]:
        """Yield the results of each slice until `deadline`, a value of `time.monotonic`."""
        waiting = list(tests)
        while waiting and time.monotonic() < deadline:
            batch = waiting[:SLICE]
            results, ending = self._run_slice(batch, deadline)
            finished = {result.test for result in results}
            left = [test for test in batch if test not in finished]
            if left and time.monotonic() < deadline:
                results.append(Result(left[0], "failed", ending))  # the test that ended its process
                finished.add(left[0])
            yield results
            waiting = [test for test in waiting if test not in finished]

    def _run_slice(self, batch: Sequence[str], deadline: float) -> tuple[list[Result], str]:
        """Run tests in a process; return their results, and how the process ended."""
        seconds = _PATIENCE * self._suite.timeout_s
        self._results.unlink(missing_ok=True)
        command = [*self._command, f"--timeout={seconds}", "--timeout-method=thread", *batch]
        environment = {**self._environment, _DEADLINE: str(deadline)}
        limit_s = 120 + seconds * len(batch)
        try:
            done = subprocess.run(
                command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            ending = f"no end after {limit_s} s"
        else:
            ending = f"the process ended by {done.returncode}: {_last(done)}"
        lines = self._results.read_text(encoding="utf-8").splitlines() if self._results.exists() else []
        by_test: dict[str, Result] = {}
        for line in lines:
            result = Result(*json.loads(line))
            before = by_test.get(result.test)
            if before is None or before.outcome != "failed":
                by_test[result.test] = result
        return list(by_test.values()), ending


def _last(done: subprocess.CompletedProcess[str]) -> str:
    """Return the end of the output of a process that ended too early."""
    text = done.stdout + done.stderr
    return "Timeout" if "+++ Timeout +++" in text or "Timeout (>" in text else text[-300:]


def line_of(name: str, results: Sequence[Result], left: int, table: Sequence[Reason]) -> str:
    """Return a suite's line: passed, failed by kind, skipped, and the share of passed tests among those that count."""
    outcomes = Counter(result.outcome for result in results)
    kinds = Counter(kind_of(result, table) for result in results if result.outcome == "failed")
    counted = outcomes["passed"] + outcomes["failed"] - kinds["internal"] - kinds["drift"]
    share = f"{100 * outcomes['passed'] / counted:.1f} %" if counted else "-"
    figures = (outcomes["passed"], *(kinds[kind] for kind in KINDS), outcomes["skipped"], left)
    return f"{name:28}" + "".join(f"{figure:>12}" for figure in figures) + f"{share:>10}"


KINDS = ("internal", "drift", "unsupported", "timeout", "wrong")
_HEAD = (
    f"{'suite':28}" + "".join(f"{word:>12}" for word in ("passed", *KINDS, "skipped", "left out")) + f"{'share':>10}"
)


def run(arguments: argparse.Namespace) -> None:
    """Run the selected suites and print their lines."""
    known, table = suites(), reasons()
    wrong = [name for name in arguments.suites if name not in known]
    if wrong:
        sys.exit(f"There is no suite {wrong[0]}. Known: {', '.join(known)}.")
    if not (arguments.folder / "test" / "test_torch.py").exists():
        sys.exit(f"{arguments.folder} has no PyTorch tests: unpack them there first.")
    everything: dict[str, Any] = {}
    if arguments.json is not None and arguments.json.exists():
        everything = json.loads(arguments.json.read_text(encoding="utf-8"))
    print(_HEAD, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.suites or known:
            suite = known[name]
            if arguments.seconds:
                suite = replace(suite, timeout_s=arguments.seconds)
            runner = Runner(suite, arguments.folder, Path(scratch), on_cpu=arguments.on_cpu)
            deadline = time.monotonic() + 60 * arguments.minutes
            tests = runner.collect(arguments.only)
            results = _results_before(everything.get(name, []), set(tests), again=arguments.again)
            done = {result.test for result in results}
            for part in runner.run([test for test in tests if test not in done], deadline):
                results += part
                everything[name] = [{**asdict(result), "kind": kind_of(result, table)} for result in results]
                if arguments.json is not None:
                    arguments.json.write_text(json.dumps(everything, indent=1), encoding="utf-8")
            print(line_of(name, results, len(tests) - len(results), table), flush=True)
            for result in results:
                if result.outcome == "failed":
                    first = result.message.partition("\n")[0][:150]
                    print(f"    {kind_of(result, table):12}{result.test.partition('::')[2]}: {first}", flush=True)


def _results_before(rows: Sequence[dict[str, Any]], tests: Collection[str], *, again: bool) -> list[Result]:
    """Return an earlier run's results of these tests, without failures if `again` is True."""
    results = [Result(*(row[part.name] for part in fields(Result))) for row in rows]
    return [result for result in results if result.test in tests and not (again and result.outcome == "failed")]


def common_seconds(on_gpu: Sequence[dict[str, Any]], on_cpu: Sequence[dict[str, Any]]) -> tuple[int, float, float]:
    """Return the number of tests that passed in both runs, and their seconds on the virtual GPU and on the CPU."""

    def passed(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        return {_on_cpu(row["test"]): row["seconds"] for row in rows if row["outcome"] == "passed"}

    gpu, cpu = passed(on_gpu), passed(on_cpu)
    both = gpu.keys() & cpu.keys()
    return len(both), sum(gpu[test] for test in both), sum(cpu[test] for test in both)


def times(arguments: argparse.Namespace) -> None:
    """Print how much longer the tests of each suite take on the virtual GPU than on the CPU."""
    on_gpu, on_cpu = (json.loads(file.read_text(encoding="utf-8")) for file in (arguments.on_gpu, arguments.on_cpu))
    for name in on_gpu.keys() & on_cpu.keys():
        count, gpu, cpu = common_seconds(on_gpu[name], on_cpu[name])
        ratio = f"{gpu / cpu:.1f}" if cpu else "-"
        print(f"{name}: {count} tests passed in both; {gpu:.0f} s and {cpu:.0f} s: {ratio} times the CPU's time")


def samples(arguments: argparse.Namespace) -> None:
    """Compare the operators' samples on the virtual GPU with the CPU, in each dtype, and print the faults."""
    import torch

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.operator_samples import faults, name_of, operators

    table = reasons()
    print(_HEAD, flush=True)
    for name in arguments.dtypes:
        dtype, deadline = getattr(torch, name), time.monotonic() + 60 * arguments.minutes
        chosen, results = operators(dtype), []
        for op in chosen:
            if time.monotonic() > deadline:
                break
            fault = "".join(faults([op], dtype, arguments.each).values())
            results.append(Result(f"samples::{name_of(op)}", "failed" if fault else "passed", fault))
            if fault:
                print(f"    {kind_of(results[-1], table):12}{name_of(op)}: {fault[:300]}", flush=True)
        print(line_of(f"samples {name}", results, len(chosen) - len(results), table), flush=True)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    unpacking = verbs.add_parser("unpack")
    unpacking.add_argument("archive", type=Path)
    unpacking.add_argument("folder", type=Path)
    running = verbs.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("suites", nargs="*")
    running.add_argument("--minutes", type=float, default=10.0, help="for each suite")
    running.add_argument("--seconds", type=int, help="of processor time for a test, instead of the suite's limit")
    running.add_argument("--only", default="", metavar="WORDS", help="pytest's -k expression")
    running.add_argument("--on-cpu", action="store_true", help="the same tests on the CPU, without the virtual GPU")
    running.add_argument("--json", type=Path, metavar="FILE", help="write every result; continue with those it has")
    running.add_argument("--again", action="store_true", help="with --json: rerun the tests that failed")
    timing = verbs.add_parser("times", help="two files of `run --json`, of the virtual GPU and of the CPU")
    timing.add_argument("on_gpu", type=Path, metavar="GPU.json")
    timing.add_argument("on_cpu", type=Path, metavar="CPU.json")
    sampling = verbs.add_parser("samples", help="PyTorch's samples of its operators, which come with torch")
    sampling.add_argument("dtypes", nargs="+", help="such as float16")
    sampling.add_argument("--each", type=int, default=4, metavar="N", help="samples of an operator")
    sampling.add_argument("--minutes", type=float, default=10.0, help="for each dtype")
    arguments = parser.parse_args()
    if arguments.verb == "unpack":
        print(f"{unpack(arguments.archive, arguments.folder)} files in {arguments.folder / 'test'}")
    elif arguments.verb == "samples":
        samples(arguments)
    elif arguments.verb == "times":
        times(arguments)
    else:
        run(arguments)


if __name__ == "__main__":
    main()
