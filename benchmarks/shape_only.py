"""Cost of sizing a large model without values, and of values on a small model.

Run it with `python benchmarks/shape_only.py [LAYERS]`. First, one training step (forward, backward, AdamW) of a
Transformer with 7 billion parameters, on several GPUs and in several precisions. Prints the seconds and the memory that
this machine needs, and the modelled time and memory on the GPU. Then a small model with values and without. Each run is
a process of its own, because peak memory is measured by process. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from time import perf_counter  # bound here: inside the block, `time.perf_counter` is the virtual clock
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

from gpututor.devices.virtual import virtual_gpu

GIB = 1 << 30


@dataclass(frozen=True)
class Size:
    """A Transformer and its training data."""

    layers: int = 32
    width: int = 4096
    hidden: int = 11008
    heads: int = 32
    vocabulary: int = 32000
    batch: int = 1
    tokens: int = 2048


LARGE = Size()
SMALL = Size(layers=4, width=256, hidden=688, heads=4, vocabulary=2000, batch=2, tokens=256)
RUNS = (
    ("B200", "fp32 weights, bf16 autocast"),
    ("B200", "bf16 weights"),
    ("H100", "bf16 weights"),
    ("H100", "fp32 weights, bf16 autocast"),
    ("A100 80", "fp32 weights, fp16 autocast"),
)


class Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.before_attention, self.before_mlp = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
        self.queries, self.keys, self.values, self.joined = (
            nn.Linear(size.width, size.width, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(size.width, size.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.before_attention(x)
        queries, keys, values = (
            part(normal).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.queries, self.keys, self.values)
        )
        attended = scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.joined(attended.transpose(1, 2).flatten(2))
        normal = self.before_mlp(x)
        changed: torch.Tensor = self.down(silu(self.gate(normal)) * self.up(normal))
        return x + changed


class Transformer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.last = nn.RMSNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits: torch.Tensor = self.head(self.last(x))
        return logits


def train(size: Size, precision: str, steps: int) -> dict[str, Any]:
    """Return the parameters, the milliseconds of the last step and the GPU's peak in GiB, all modelled."""
    weights = torch.bfloat16 if precision == "bf16 weights" else torch.float32
    autocast = torch.bfloat16 if "bf16" in precision else torch.float16
    with torch.device("cuda"):
        torch.set_default_dtype(weights)
        model = Transformer(size)
        torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled="fp16" in precision)
    tokens = torch.randint(size.vocabulary, (size.batch, size.tokens + 1), device="cuda")
    began, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(steps):
        began.record()
        mixed = torch.autocast("cuda", autocast) if "autocast" in precision else nullcontext()
        with mixed:
            logits = model(tokens[:, :-1])
            loss = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        done.record()
    torch.cuda.synchronize()
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "step_ms": began.elapsed_time(done),
        "peak_gib": torch.cuda.max_memory_allocated() / GIB,
    }


def measured(gpu: str, precision: str, size: Size, values: bool, steps: int) -> dict[str, Any]:
    """Return the result of `train`, or its out-of-memory error, with this machine's seconds and MiB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = perf_counter()
    with virtual_gpu(model=gpu, values=values):
        try:
            result = train(size, precision, steps)
        except torch.OutOfMemoryError as error:
            result = {"error": str(error).partition(". GPU")[0]}
        taken = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**result, "seconds": taken, "peak_mib": peak / 1024, "grown_mib": (peak - before) / 1024}


def in_a_process(gpu: str, precision: str, size: Size, values: bool, steps: int) -> dict[str, Any]:
    order = json.dumps([gpu, precision, asdict(size), values, steps])
    done = subprocess.run([sys.executable, __file__, "--run", order], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layers", nargs="?", type=int, default=LARGE.layers, help="of the large model")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        gpu, precision, size, values, steps = json.loads(options.run)
        print(json.dumps(measured(gpu, precision, Size(**size), values, steps)))
        return
    large = Size(layers=options.layers)
    print(f"One step of {large.layers} layers of {large.width}, {large.batch} x {large.tokens} tokens, without values")
    print(f"  {'GPU (modelled)':<10} {'precision':<28} {'here':>8} {'resident':>10}   on the GPU")
    for gpu, precision in RUNS:
        result = in_a_process(gpu, precision, large, values=False, steps=1)
        print(f"  {gpu:<10} {precision:<28} {result['seconds']:>6.1f} s {result['peak_mib']:>6.0f} MiB   ", end="")
        if "error" in result:
            print(result["error"])
        else:
            billions = result["parameters"] / 1e9
            print(f"{result['step_ms']:.0f} ms, {result['peak_gib']:.1f} GiB at most, {billions:.2f} B parameters")
    print("A small model, 5 steps: with values and without")
    runs = {values: in_a_process("T4", RUNS[0][1], SMALL, values=values, steps=5) for values in (True, False)}
    for values, result in runs.items():
        kind = "with values" if values else "without"
        print(
            f"  {kind:<12} {result['seconds']:>6.2f} s {result['grown_mib']:>6.0f} MiB more than at first   "
            f"{result['step_ms']:.3f} ms a step, {result['peak_gib']:.3f} GiB"
        )
    ratios = (runs[False][name] / runs[True][name] for name in ("seconds", "grown_mib"))
    print("  ratio        {:>6.2f}   {:>6.2f}".format(*ratios))


if __name__ == "__main__":
    main()
