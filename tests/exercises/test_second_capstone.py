"""The second capstone hides twelve faults: each alone costs time or memory, and the script without them costs least."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu
from tests.support.shipped_course import COURSE

EXERCISE = COURSE.find("meet_the_budget")
CROSS_ENTROPY = 'scores = scores.transpose(1, 2)\n    return F.cross_entropy(scores, words, reduction="none").mean(-1)'
ATTENTION = """F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True
        )"""
FAULTS = {
    "scores of all positions in memory": [
        (
            ATTENTION,
            "(queries @ keys.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).masked_fill(torch.ones("
            "length, length, device=x.device).triu(1).bool(), float('-inf')).softmax(-1) @ values",
        ),
    ],
    "a head at a time": [
        (
            ATTENTION,
            "torch.stack([F.scaled_dot_product_attention(q, k, v, is_causal=True)"
            " for q, k, v in zip(queries.unbind(1), keys.unbind(1), values.unbind(1))], 1)",
        ),
    ],
    "positions computed in each call": [("+ self.positions\n", "+ positions(text.shape[1]).to(text.device)\n")],
    "one-hot vectors in double precision": [
        (CROSS_ENTROPY, "return -(scores.log_softmax(-1) * F.one_hot(words, WORDS).double()).sum(-1).mean(-1).float()"),
    ],
    "a wait for the norm of each gradient": [
        (
            "nn.utils.clip_grad_norm_(parameters, LONGEST_GRADIENT)",
            "length = sum(p.grad.norm().item() ** 2 for p in parameters) ** 0.5\n"
            "        for p in parameters:\n            p.grad *= min(1.0, LONGEST_GRADIENT / length)",
        ),
    ],
    "an optimizer with launches for each parameter": [("fused=True", "foreach=False")],
    "a moving average on the CPU": [
        ("value.lerp_(now, 1 - DECAY)", "value.lerp_(now.cpu(), 1 - DECAY)"),
        ("parameter.detach().clone() for", "parameter.detach().cpu().clone() for"),
    ],
    "rows copied one by one": [
        (
            "for words in text.to(device).split(batch):",
            "for rows in text.split(batch):\n        words = torch.stack([row.to(device) for row in rows])",
        ),
    ],
    "graphs of all steps": [
        ("loss.backward()", "loss.backward(retain_graph=True)"),
        ("losses.append(loss.detach())", "losses.append(loss)"),
        ("torch.stack(losses).cpu()", "torch.stack(losses).detach().cpu()"),
    ],
    "an emptied cache in each step": [
        ("losses.append(loss.detach())", "losses.append(loss.detach())\n        torch.cuda.empty_cache()"),
    ],
    "validation row by row": [
        (
            "return loss_of(model(words[:, :-1]), words[:, 1:]).cpu()",
            "return torch.cat([loss_of(model(row[None, :-1]), row[None, 1:]) for row in words]).cpu()",
        ),
    ],
    "validation with graphs": [
        ("@torch.inference_mode()\n", ""),
        ("words[:, 1:]).cpu()", "words[:, 1:]).detach().cpu()"),
    ],
}
"""Replacements in the solution that put a fault of the starter back."""


class Cost(NamedTuple):
    seconds: float
    peak_bytes: int


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder: the script saves its result there."""
    monkeypatch.chdir(tmp_path)


def cost_of(source: str) -> Cost:
    """Return the modelled time and the peak memory of a run on a T4, after a first one."""
    names: dict[str, Any] = {"__name__": "script"}
    exec(compile(source, "script.py", "exec"), names)
    with virtual_gpu(1, "T4"):
        names["main"](1, 1, 8)
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        names["main"](1, 4, 8)
        torch.cuda.synchronize()
        return Cost(time.perf_counter() - start, torch.cuda.max_memory_allocated())


@cache
def cost_of_solution() -> Cost:
    return cost_of(EXERCISE.solution)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone_costs_time_or_memory(fault: str) -> None:
    source = EXERCISE.solution
    for right, wrong in FAULTS[fault]:
        assert right in source, right
        source = source.replace(right, wrong)
    least, cost = cost_of_solution(), cost_of(source)
    assert cost.seconds > 1.005 * least.seconds or cost.peak_bytes > 1.005 * least.peak_bytes, (least, cost)


def test_the_starter_has_all_of_their_cost() -> None:
    assert len(FAULTS) == 12
    least, cost = cost_of_solution(), cost_of(EXERCISE.starter)
    assert cost.seconds > 4 * least.seconds
    assert cost.peak_bytes > least.peak_bytes / 0.36
