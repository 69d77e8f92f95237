"""Setup of all tests: a home of their own, and a failure where CI would skip a test of isolation."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.tiny_course import write_course

# Several test processes share the machine's cores: with threads of their own, small work takes ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell starts background jobs without Ctrl-C, and programs under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests never assert times: the machine may be busy with other work.
settings.register_profile("gpututor", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpututor")

LONG_S = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(LONG_S))


def pytest_collection_finish() -> None:
    """Thousands of tests, and all that they import, stay to the end: no garbage is looked for among them.

    What collects garbage, as each comparison without values does, takes a tenth of the time. Python itself looks less
    often: with its own thresholds a third of the app's tests was that.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are not there yet; pytest's own would be numbered by looking through all that there are."""
    above = tmp_path_factory.mktemp("homes")
    return (above / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(homes: Iterator[Path]) -> Generator[Path, None, None]:
    """Nothing that a test does touches the files of the person who runs it.

    Not by the test's own monkeypatch, which a test may undo half-way.
    """
    folder = next(homes)
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(folder))
        for name in ("VISUAL", "EDITOR", "TMUX", "ZELLIJ", "TERM_PROGRAM"):
            patch.delenv(name, raising=False)  # no test opens the editor of the person who runs it
        yield folder


@pytest.fixture
def exercise_folder(tmp_path: Path) -> Path:
    """Return the folder of the only exercise of a tiny course."""
    return write_course(tmp_path / "course", exercises=1) / "01_lesson_1" / "01_twice_1_1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    required = os.environ.get("GPUTUTOR_REQUIRE_ISOLATION") == "1"
    if required and report.skipped and item.get_closest_marker("isolation"):
        report.outcome = "failed"
        report.longrepr = "an isolation test was skipped, and here it must run: is bubblewrap installed?"
    return report
