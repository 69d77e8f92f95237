"""Options, jobs, and where reports are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import (
    JobFailure,
    Options,
    jobs_of,
    read_failures,
    resolve_options,
    seed_for,
    write_failures,
)
from gpututor.errors import NotGradableHere, UsageError
from gpututor.grading.journal import write_entry
from gpututor.hardware.inventory import Device
from tests.support.classes import ASKED, SECRET, class_of, class_with_options, report_of, reports_of
from tests.support.shipped_course import COURSE

GPUS = (Device("cuda:0", "cuda", "NVIDIA H100"), Device("cuda:1", "cuda", "NVIDIA H100"))


@pytest.fixture
def folder(tmp_path: Path) -> ClassFolder:
    return ClassFolder(tmp_path)


def test_equal_texts_share_a_job_and_each_has_the_report(folder: ClassFolder) -> None:
    first, second = (exercise.key for exercise in COURSE.exercises[:2])
    files = [("kim", first, "a"), ("lee", first, "a"), ("lee", second, "b")]
    class_, options = class_with_options(folder, files)
    jobs = jobs_of(class_, COURSE, folder, options, SECRET)
    assert [(job.key.exercise, job.request().submission) for job in jobs] == [(first, "a"), (second, "b")]
    assert [job.seed for job in jobs] == [seed_for(SECRET, job.key.exercise, job.key.submission) for job in jobs]
    report = report_of(first, submission="a")
    write_entry(folder.journal, jobs[0].key, report)
    answers = list(reports_of(folder))
    assert [(submission.student, key, answer) for submission, key, answer in answers] == [
        ("kim", jobs[0].key, report),
        ("lee", jobs[0].key, report),
        ("lee", jobs[1].key, None),
    ]


def test_options_and_failures_survive_and_refused_files_have_no_job(folder: ClassFolder) -> None:
    with pytest.raises(UsageError):
        next(reports_of(folder))
    class_, options = class_with_options(folder, [("kim", COURSE.exercises[0].key, "a")], replace(ASKED, gpu="A100"))
    assert Options.read(folder) == options
    assert [each.device for each in options.exercises] == ["virtual A100"]
    (job,) = jobs_of(class_, COURSE, folder, options, SECRET)
    assert read_failures(folder) == {}
    write_failures(folder, [JobFailure(job.key, 3, "The judge stopped.")])
    assert read_failures(folder) == {job.key: JobFailure(job.key, 3, "The judge stopped.")}
    class_, options = class_with_options(folder, [("kim", COURSE.exercises[0].key, "a")])
    class_ = replace(class_, submissions=(replace(class_.submissions[0], refusal="It is a link."),))
    folder.write_class(class_)
    assert jobs_of(class_, COURSE, folder, options, SECRET) == []
    assert [(key, report) for _, key, report in reports_of(folder)] == [(None, None)]


def test_the_key_names_a_real_device_if_the_exercise_allows_it(folder: ClassFolder) -> None:
    on_gpus = next(exercise for exercise in COURSE.exercises if "cuda" in exercise.devices)
    virtual_only = next(exercise for exercise in COURSE.exercises if "cuda" not in exercise.devices)
    class_ = class_of(folder, [("kim", on_gpus.key, "a"), ("kim", virtual_only.key, "b")], COURSE.folder)
    options = resolve_options(ASKED, class_, COURSE, GPUS, "2.9.0")
    assert {each.exercise: each.device for each in options.exercises} == {
        on_gpus.key: "cuda NVIDIA H100",
        virtual_only.key: "virtual",
    }
    jobs = jobs_of(class_, COURSE, folder, options, SECRET)
    assert [job.device for job in jobs] == ["cuda", "virtual"]
    with pytest.raises(NotGradableHere, match=virtual_only.key):
        resolve_options(replace(ASKED, device="cuda"), class_, COURSE, GPUS, "2.9.0")
