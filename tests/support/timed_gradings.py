"""Gradings of an exercise that is timed."""

from __future__ import annotations

from collections.abc import Callable

from gpututor.grading.report import Report, Verdict

CHECKS = """\
import torch

from gpututor.checks import parity, speed, structure


def reference(matrix):
    product = matrix
    for _ in range(20):
        product = torch.tanh(product @ matrix)
    return product


checks = [speed(1.25, real_at_most=1.25), structure(reference), parity(reference, times=10)]
"""


BASELINE = """\
import torch


def chain(matrix):
    product = matrix
    for _ in range(20):
        product = torch.tanh(product @ matrix)
    return product
"""


GradeTimed = Callable[[str, str], tuple[Report, Verdict]]
