"""Progress is durable: after closing, migration, damage, and concurrent writes."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpututor.errors import ProgressError
from gpututor.grading.report import Outcome, Report, Status
from gpututor.progress import database
from gpututor.progress import store as store_module
from gpututor.progress.store import Attempt, ExerciseProgress, ProgressStore, read_record
from tests.support import ROOT
from tests.support.reports import report
from tests.support.threads import started

WRITER = """
import sys
from pathlib import Path
from gpututor.progress.store import ProgressStore
from tests.support.reports import report
store = ProgressStore(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    store.record(report(seed=number))
    store.open_hints("tensors/born", number + 1)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "progress.sqlite3"


@pytest.fixture
def store(path: Path) -> ProgressStore:
    return ProgressStore(path)


def best(store: ProgressStore) -> Attempt:
    attempt = store.best("tensors/born")
    assert attempt is not None
    return attempt


def test_attempts_are_stored_in_order_and_numbered(path: Path, store: ProgressStore) -> None:
    reports = [report(seed=seed) for seed in range(3)]
    for each in reports:
        store.record(each)
    store.record(report("other/thing"))
    store.close()
    assert ProgressStore(path).attempts("tensors/born") == [
        Attempt(each, number, number) for number, each in enumerate(reports, 1)
    ]


@pytest.mark.parametrize("outcome", [Outcome.NOT_GRADABLE_HERE, Outcome.INTERNAL_ERROR, Outcome.INCONCLUSIVE])
def test_attempts_without_a_verdict_are_stored_but_not_counted(
    path: Path, store: ProgressStore, outcome: Outcome
) -> None:
    store.record(report(outcome=outcome))
    store.record(report())
    assert [attempt.number for attempt in store.attempts("tensors/born")] == [1]
    assert store.summary() == {"tensors/born": ExerciseProgress(attempts=1)}
    assert len(store.all_ids("tensors/born")) == 2


def test_once_passed_stays_passed_and_the_best_attempt_is_the_quickest(store: ProgressStore) -> None:
    store.record(report(elapsed_s=0.1))
    assert store.best("tensors/born") is None
    for elapsed_s in (0.9, 0.4, 0.7):
        store.record(report(outcome=Outcome.PASSED, elapsed_s=elapsed_s))
    store.record(report())
    assert store.summary()["tensors/born"] == ExerciseProgress(attempts=5, passed=True)
    assert (best(store).number, best(store).report.elapsed_s) == (3, 0.4)


def test_hints_and_the_current_exercise_are_kept(path: Path, store: ProgressStore) -> None:
    assert (store.current_exercise(), store.hints_used("tensors/born"), store.summary()) == (None, 0, {})
    for number in (1, 2, 1):
        store.open_hints("tensors/born", number)
    store.set_current_exercise("tensors/born")
    store.set_current_exercise("tensors/there")
    store.close()
    again = ProgressStore(path)
    assert (again.current_exercise(), again.hints_used("tensors/born")) == ("tensors/there", 2)
    assert again.summary() == {"tensors/born": ExerciseProgress(hints_used=2)}


def test_watching_an_exercise_keeps_the_current_place(store: ProgressStore) -> None:
    assert store.exercise_opened_last() is None
    for open_one, key, app_s in (
        (store.set_watched_exercise, "a", None),
        (store.set_current_exercise, "b", "b"),
        (store.set_watched_exercise, "c", "b"),
        (store.set_watched_exercise, "d", "b"),
        (store.set_current_exercise, "b", "b"),
        (store.set_watched_exercise, "a", "b"),
    ):
        open_one(key)
        store.set_place("somewhere")
        assert (store.exercise_opened_last(), store.current_exercise()) == (key, app_s)


def test_a_report_of_another_schema_is_only_counted(path: Path, store: ProgressStore) -> None:
    store.record(report())
    store.rows("UPDATE attempts SET report = replace(report, '\"schema_version\": 3', '\"schema_version\": 9')")
    store.record(report(seed=2))
    assert [attempt.number for attempt in store.attempts("tensors/born")] == [2]
    assert store.summary()["tensors/born"].attempts == 2


def test_an_older_file_is_migrated(path: Path, store: ProgressStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.record(report())
    store.close()
    newer = [*database.MIGRATIONS, ("ALTER TABLE hints ADD COLUMN note TEXT NOT NULL DEFAULT ''",)]
    monkeypatch.setattr(database, "MIGRATIONS", newer)
    migrated = ProgressStore(path)
    assert migrated.notice is None
    assert len(migrated.attempts("tensors/born")) == 1
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)
        connection.execute("SELECT note FROM hints")


def test_a_failed_migration_leaves_the_file_unchanged(
    path: Path, store: ProgressStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.record(report())
    store.close()
    with monkeypatch.context() as patched:
        broken = ("CREATE TABLE halfway (x)", "INSERT INTO halfway VALUES (1), (1, 2)")
        patched.setattr(database, "MIGRATIONS", [*database.MIGRATIONS, broken])
        with pytest.raises(sqlite3.OperationalError):
            database.connect(path, 0.0)
    again = ProgressStore(path)
    assert (again.notice, len(again.attempts("tensors/born"))) == (None, 1)


def test_a_newer_file_is_refused_and_unchanged(path: Path, store: ProgressStore) -> None:
    store.record(report())
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ProgressError, match="newer gpututor") as refused:
        ProgressStore(path)
    assert "GPUTUTOR_HOME" in refused.value.advice
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database, but long enough to be read as one" * 40, b"SQLite format 3\0"])
def test_a_damaged_file_is_set_aside_with_a_notice(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    store = ProgressStore(path)
    aside = next(path.parent.glob("progress.damaged-*.sqlite3"))
    assert aside.read_bytes() == content
    assert store.notice is not None
    assert str(aside) in store.notice
    store.record(report())
    store.close()
    again = ProgressStore(path)
    assert (again.notice, len(again.attempts("tensors/born"))) == (None, 1)


def test_damage_discovered_in_use_loses_no_attempt(path: Path, store: ProgressStore) -> None:
    for seed in range(50):
        store.record(report(seed=seed))
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    store = ProgressStore(path)
    store.record(report(seed=50))
    assert store.notice is not None
    assert [attempt.report.environment.seed for attempt in store.attempts("tensors/born")] == [50]
    assert len(list(path.parent.glob("progress.damaged-*.sqlite3"))) == 1


def test_a_foreign_database_is_set_aside(store: ProgressStore) -> None:
    store.rows("DROP TABLE attempts")
    store.record(report())
    assert store.notice is not None
    assert store.summary()["tensors/born"].attempts == 1


def test_an_unusable_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProgressError, match="cannot be stored"):
        ProgressStore(tmp_path / "file" / "progress.sqlite3")


def test_threads_can_share_a_store(store: ProgressStore) -> None:
    for thread in [started(lambda: [store.record(report("a/b")) for _ in range(25)]) for _ in range(4)]:
        thread.join()
    assert store.summary() == {"a/b": ExerciseProgress(attempts=100)}


def test_processes_write_at_once_with_full_synchronization(path: Path) -> None:
    for _ in range(2):  # a new file, then an existing file
        store = ProgressStore(path)
        # WAL with NORMAL would leave the last commits to the system's cache; FULL (2) syncs each commit.
        assert (store.rows("PRAGMA synchronous"), store.rows("PRAGMA journal_mode")) == ([(2,)], [("wal",)])
        store.close()
    command = [sys.executable, "-c", WRITER, str(path), "40"]
    writers = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert ProgressStore(path).summary() == {"tensors/born": ExerciseProgress(attempts=80, hints_used=40)}


def test_a_file_of_version_1_keeps_its_attempts(path: Path) -> None:
    old = [report(seed=seed) for seed in range(3)]
    path.parent.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in database.MIGRATIONS[0]:
            connection.execute(statement)
        for each in old:
            row = (each.exercise, str(each.outcome), True, json.dumps(each.to_json()))
            connection.execute("INSERT INTO attempts (exercise, outcome, counted, report) VALUES (?, ?, ?, ?)", row)
        connection.execute("PRAGMA user_version = 1")
    store = ProgressStore(path)
    assert store.notice is None
    assert store.attempts("tensors/born") == [Attempt(each, number, number) for number, each in enumerate(old, 1)]
    new = store.record(report(seed=3), "x = '\ud800'\n", run_ns=5, peak_bytes=7)
    assert store.attempt(new) == Attempt(report(seed=3), 4, 4, "x = '?'\n", 5, 7), "half a surrogate pair is kept"
    assert store.latest("tensors/born") == store.attempt(new)


def test_attempts_are_paged_from_the_newest(store: ProgressStore) -> None:
    ids = [store.record(report(seed=seed)) for seed in range(5)]
    store.record(report("other/thing"))
    assert store.ids("tensors/born", newest=2) == [5, 4]
    assert [attempt.number for attempt in store.attempts("tensors/born", newest=2, before=ids[3])] == [2, 3]
    assert store.attempts("tensors/born", before=ids[0]) == []
    assert store.attempt(99) is None
    assert store.latest("none/such") is None


def test_the_best_attempt_is_the_fastest_on_the_latest_device(store: ProgressStore) -> None:
    passed = report(outcome=Outcome.PASSED, elapsed_s=0.1)
    real = replace(passed, runs=(replace(passed.runs[0], device="cuda:0, NVIDIA H200", virtual=False),))
    store.record(passed)  # without a recording
    store.record(real, run_ns=3)
    store.record(report(), run_ns=1)  # failed
    store.record(passed, run_ns=900)
    store.record(passed, run_ns=400)
    store.record(passed, run_ns=600)
    assert best(store).number == 5


def test_the_best_attempt_needs_one_report(path: Path, store: ProgressStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        store.record(report(outcome=Outcome.PASSED, elapsed_s=1 + (7 * number) % 40))
    store.rows("UPDATE attempts SET report = '[' WHERE id = 3")
    read: list[str] = []
    real = store_module.read_record

    def noted(text: str) -> Report:
        read.append(text)
        return real(text)

    monkeypatch.setattr(store_module, "read_record", noted)
    assert best(store).report.elapsed_s == 1
    assert len(read) == 1


def test_without_patience_a_busy_database_is_refused_at_once(path: Path, store: ProgressStore) -> None:
    store.patience = lambda: 0.0
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ProgressError, match="locked"):
            store.set_place("here")
        other.execute("ROLLBACK")
    with database.exclusive_lock(path, 0.0), pytest.raises(ProgressError, match="another program"):
        ProgressStore(path, patience=store.patience)
    ProgressStore(path, patience=store.patience).set_place("here")
    assert store.place() == "here"


WRITTEN_BY_VERSION_1 = (
    '{"exercise": "tensors/born", "outcome": "failed", "verdicts": [{"check": "placement", "sentence": "Every output '
    'lives on cuda:0", "status": "failed", "scenario": "one GPU", "expected": "cuda:0", "got": "cpu", "line": 3, '
    '"why": "", "advice": ""}, {"check": "parity", "sentence": "The values are right", "status": "not run", '
    '"scenario": "one GPU", "expected": "", "got": "", "line": null, "why": "", "advice": ""}], "runs": [{"scenario": '
    '"one GPU", "device": "cuda:0, virtual T4", "virtual": true, "output": "hello\\n", "output_dropped_bytes": 0, '
    '"traceback": "", "kernels": 1, "transfers": 2, "synchronisations": 0}], "environment": {"gpututor": "0.1.0", '
    '"torch": "2.13.0", "python": "3.11.7", "platform": "linux x86_64", "isolation": "process", "seed": 7}, '
    '"submission_sha256": "00", "started_at": "2026-01-01T00:00:00+00:00", "elapsed_s": 0.5, "reason": "", '
    '"schema_version": 1}'
)


def test_records_of_versions_1_and_2_are_read() -> None:
    record = read_record(WRITTEN_BY_VERSION_1)
    assert (record.outcome, record.points, record.of, record.final) == (Outcome.FAILED, 0, 0, True)
    assert [(each.check, each.status, each.line) for each in record.verdicts] == [
        ("placement", Status.FAILED, 3),
        ("parity", Status.NOT_RUN, None),
    ]
    assert (record.runs[0].kernels, record.runs[0].placement, record.environment.workers) == (1, "", "")
    assert Report.from_json(record.to_json()) == record
    now = report()
    older = {**now.to_json(), "schema_version": 2}
    del older["source_notes"]
    assert read_record(json.dumps(older)) == now


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_of_version_1_is_readable(outcome: Outcome) -> None:
    data: dict[str, Any] = json.loads(WRITTEN_BY_VERSION_1) | {"outcome": str(outcome)}
    if outcome is Outcome.PASSED:
        data["verdicts"] = []
    assert read_record(json.dumps(data)).outcome is outcome


@pytest.mark.parametrize("part", ["verdicts", "runs", "environment", "outcome"])
@pytest.mark.parametrize("value", [None, 1, "x", [None], [[]], {}])
def test_a_broken_record_of_version_1_is_a_value_error(part: str, value: object) -> None:
    data = json.loads(WRITTEN_BY_VERSION_1) | {part: value}
    with pytest.raises(ValueError, match=part):
        read_record(json.dumps(data))


def test_an_attempt_of_version_1_stays_in_the_list(store: ProgressStore) -> None:
    store.record(report())
    store.rows("UPDATE attempts SET report = ?", WRITTEN_BY_VERSION_1)
    store.record(report(seed=2))
    assert [attempt.report.environment.seed for attempt in store.attempts("tensors/born")] == [7, 2]
    assert store.summary()["tensors/born"].attempts == 2
