"""The page of topics links to every exercise of the course by its name and number."""

from __future__ import annotations

import re

import pytest

from gpututor.course.model import Exercise
from tests.support import ROOT
from tests.support.shipped_course import COURSE

PAGE = ROOT / "docs" / "topics.md"
LINK = re.compile(r"^\[(\d+\.\d+ \w+)\]: (\S+)$", re.MULTILINE)
MENTION = re.compile(r"\[(\d+\.\d+ \w+)\](?!:)")


def name(exercise: Exercise) -> str:
    return f"{exercise.label} {exercise.slug}"


def test_the_page_links_every_exercise_by_number_and_name_and_nothing_else() -> None:
    links = {label: (PAGE.parent / target).resolve() for label, target in LINK.findall(PAGE.read_text("utf-8"))}
    wanted = {name(exercise): exercise.folder.resolve() for exercise in COURSE.exercises}
    missing = [
        f"[{label}]: ../exercises/{'/'.join(at.parts[-2:])}" for label, at in wanted.items() if label not in links
    ]
    assert links == wanted, "these lines are missing:\n" + "\n".join(missing)
    mentioned = set(MENTION.findall(PAGE.read_text("utf-8")))
    assert mentioned == {name(exercise) for exercise in COURSE.exercises}


SYSTEMS = {
    "GPUs: availability, number, names": ("1.1", r"device_count"),
    "selection of a device": ("1.2 1.3", r"torch\.device"),
    "`try_gpu`, `try_all_gpus`": ("1.3", r"try_all_gpus"),
    "installation: builds of PyTorch, and drivers that match": ("1.5", r"driver"),
    "`nvidia-smi`": ("1.4", r"nvidia-smi"),
    "tensors made on a device: `device=`": ("2.1", r"device="),
    "moving tensors: `.to`, `.cuda`, `.cpu`": ("2.2 2.3 5.1", r"\.to\("),
    "mismatched devices": ("2.3 2.4", r"same device|different devices"),
    "parameters and buffers": ("3.1 3.2 8.4", r"buffer"),
    "forward pass": ("3.3 5.4", r"inference_mode"),
    "training step": ("3.4 7.2 8.6", r"\.backward\("),
    "state dicts across devices": ("3.5 10.2 10.4", r"state_dict"),
    "timing with `synchronize`": ("4.1 4.3 10.5", r"synchronize"),
    "timing with CUDA events": ("4.2", r"Event\("),
    "timing with `torch.utils.benchmark`": ("4.6", r"benchmark"),
    "few large copies instead of copies of rows": ("4.5 5.1 5.2", r"\bcopy\b"),
    "hidden waits: `.item()`": ("4.5 5.3 5.9 8.5", r"\bwait"),
    "batches": ("5.4 6.4 6.6", r"batch"),
    "pinned memory, `non_blocking`": ("5.5 5.6 5.7", r"non_blocking"),
    "a prefetcher": ("5.7", r"Prefetcher"),
    "streams": ("5.7 5.8", r"torch\.cuda\.stream\("),
    "a `DataLoader` that feeds a CNN": ("3.6 5.10", r"DataLoader[\s\S]*[Cc]onv|[Cc]onv[\s\S]*DataLoader"),
    "meters, `empty_cache`": ("6.3 6.9", r"empty_cache"),
    "out of memory, the largest batch": ("6.4", r"OutOfMemoryError"),
    "`view` or `reshape`": ("6.1", r"reshape"),
    "work in place": ("6.2", r"inplace"),
    "gradient checkpointing": ("6.5", r"checkpoint\("),
    "automatic mixed precision (AMP)": ("7.1 7.2 7.4", r"autocast"),
    "tensor cores: types": ("7.3", r"float32_matmul_precision"),
    "tensor cores: sizes": ("7.6", r"multiples? of 8"),
    "convolutional networks (CNN)": ("3.1 6.7 8.1 8.6", r"[Cc]onv"),
    "recurrent networks (RNN)": ("8.2", r"RNN"),
    "LSTM": ("8.3", r"LSTM"),
    "Transformer": ("8.4 8.9", r"Transformer"),
    "encoder-decoder": ("8.9", r"[Dd]ecoder"),
    "`torch.jit.trace`: its gain in speed": ("9.2", r"jit\.trace"),
    "`torch.export`, `torch.jit.trace`": ("9.1", r"jit\.trace"),
    "profiler: tables": ("9.3", r"key_averages"),
    "profiler: schedules, labeled ranges, a Chrome trace": ("9.4", r"schedule\([\s\S]*export_chrome_trace"),
    "two products on two GPUs": ("10.1", r"two products"),
    "`DataParallel`": ("10.2", r"DataParallel"),
    "model parallelism": ("10.3", r"cuda:1"),
    "`DistributedDataParallel` (DDP)": ("10.4", r"DistributedDataParallel"),
    "strong and weak scaling, their efficiency": ("10.5", r"efficiency"),
    "an image pipeline (like CIFAR's): augmentation, AMP": ("3.6", r"[Aa]ugment[\s\S]*autocast"),
    "hardware choice": ("12.5", r"price"),
}
"""Beginning or part of a topic, the exercises of its row, and a pattern in the task or solution of each."""


@pytest.mark.parametrize("topic", SYSTEMS)
def test_a_topic_names_the_exercises_that_grade_it(topic: str) -> None:
    labels, pattern = SYSTEMS[topic]
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    (row,) = (exercises for title, exercises in rows if re.search(rf"(^|\W){re.escape(topic)}", title))
    assert [mention.split()[0] for mention in MENTION.findall(row)] == labels.split()
    for label in labels.split():
        exercise = COURSE.find(label)
        assert re.search(pattern, exercise.task + exercise.solution), label
