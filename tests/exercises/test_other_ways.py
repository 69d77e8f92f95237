"""Solutions written another way pass as well: a check asks for the idea, not for the words of our own solution."""

from __future__ import annotations

import pytest

from gpututor.authoring.stations import Station
from gpututor.grading.report import Outcome
from tests.exercises.courses import COURSE

LOAD = """
import queue
import threading
from itertools import islice

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, Subset


def load_epoch(dataset, batch_size, workers, device):
    {loader}
    epoch = []
    for pictures, labels in {batches}:
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
    return epoch


def numbers(pairs):
    pictures, labels = zip(*pairs)
    return torch.cat([picture.unsqueeze(0) for picture in pictures]), torch.tensor([int(label) for label in labels])


class Stream(IterableDataset):
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return (self.dataset[index] for index in range(len(self.dataset)))


def one_ahead(loader):
    ready = queue.Queue(1)

    def fill():
        for batch in loader:
            ready.put(batch)
        ready.put(None)

    threading.Thread(target=fill).start()
    return iter(ready.get, None)
"""
OPTIONS = "num_workers=workers, pin_memory=True"
IN_TURN = "BatchSampler(SequentialSampler(dataset), batch_size, False)"
LOADERS = {
    "own_collate": (f"loader = DataLoader(dataset, batch_size, collate_fn=numbers, {OPTIONS})", "loader"),
    "batch_sampler": (f"loader = DataLoader(dataset, batch_sampler={IN_TURN}, {OPTIONS})", "list(loader)"),
    "lists_of_indices": (f"loader = DataLoader(dataset, batch_size=None, sampler={IN_TURN}, {OPTIONS})", "loader"),
    "part_of_a_set": (
        f"loader = DataLoader(Subset(dataset, range(len(dataset))), batch_size, {OPTIONS})",
        "islice(loader, len(loader))",
    ),
    "stream": (f"loader = DataLoader(Stream(dataset), batch_size, {OPTIONS})", "loader"),
    "thread": (f"loader = DataLoader(dataset, batch_size, {OPTIONS})", "one_ahead(loader)"),
    "looks_first": (f"print(dataset[0]); loader = DataLoader(dataset, batch_size, {OPTIONS})", "iter(loader)"),
}

TIME = """
import time

import torch


def seconds(function, batch, repeats):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        output = function(batch)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats, output


def compile_and_time(model, batch, repeats):
    {compiled}
    first, output = seconds(compiled, batch, 1)
    later, _ = seconds(compiled, batch, repeats)
    model(batch)
    eager, _ = seconds(model, batch, repeats)
    return {{"output": output, "first_seconds": first, "seconds": later, "eager_seconds": eager}}
"""
COMPILED = {
    "method": "compiled = torch.compile(model.forward)",
    "decorator": "compiled = torch.compile(mode='reduce-overhead')(lambda batch: model(batch))",
}
WAYS = [
    *(
        pytest.param("5.6", LOAD.format(loader=loader, batches=read), id=name)
        for name, (loader, read) in LOADERS.items()
    ),
    *(pytest.param("9.2", TIME.format(compiled=compiled), id=name) for name, compiled in COMPILED.items()),
]


@pytest.mark.parametrize(("label", "source"), WAYS)
def test_a_solution_written_another_way_passes(label: str, source: str, station: Station) -> None:
    exercise = next(one for one in COURSE.exercises if one.label == label)
    report = station.grade(exercise, source, 1)
    assert report.outcome is Outcome.PASSED, report
