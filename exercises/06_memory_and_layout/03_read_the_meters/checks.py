"""Each of the five meters, by what was drawn and the rules of the allocator."""

from __future__ import annotations

from typing import Any

from gpututor.checks import Check, Finding, Run, structure

SEGMENT = 2 << 20
"""Bytes that PyTorch takes from the driver for tensors of up to 1 MiB."""


def expected(drawn: dict[str, Any], machine: Any) -> list[dict[str, int]]:
    """Bytes for each work. All kept tensors share a segment; its rest is cached and cannot be given back."""
    reports, kept = [], 0
    for work in drawn["works"]:
        kept += work["kept"]
        whole_segments = work["scratch"] + work["result"]
        reports.append(
            {
                "held": work["result"] + work["kept"],
                "peak": work["result"] + work["kept"] + work["scratch"],
                "kept": work["kept"],
                "cached": whole_segments + (SEGMENT - kept if kept else 0),
                "given_back": whole_segments,
            }
        )
    return reports


def reference(works: list[dict[str, int]], **rest: Any) -> list[dict[str, int]]:
    """The structure of the result."""
    return expected({"works": works}, None)


def meter(name: str, sentence: str, advice: str) -> Check:
    """Check one figure of all works in all calls."""

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            for number, (wanted, got) in enumerate(zip(expected(call.drawn, run.machine), call.output, strict=True)):
                if got[name] != wanted[name]:
                    return Finding(
                        expected=f"result[{number}][{name!r}] is {wanted[name]:,}",
                        got=f"{got[name]:,}{run.which(call)}",
                        line=run.line_of(call),
                    )
        return None

    return Check(
        name,
        lambda machine: sentence,
        find,
        ("structure",),
        "Each meter answers a different question: what tensors hold, what they held, and what PyTorch keeps for later.",
        advice,
        results_only=True,
        kind="values",
    )


checks = [
    structure(
        reference,
        advice="One dict for each work, in order. Its five values are plain ints: bytes, not MiB.",
    ),
    meter(
        "kept",
        "It reports what stays after the result is deleted",
        "Read memory_allocated(device) before the work, and once more after `del` of the only name of the result. The "
        "difference is kept.",
    ),
    meter(
        "held",
        "It reports what tensors hold with the result",
        "memory_allocated(device) after the work, less what it was before this work. Pass the device: it may not be "
        "the current one.",
    ),
    meter(
        "peak",
        "It reports the most that tensors held",
        "Reset the peak before each work, on this device, and subtract what was allocated before it.",
    ),
    meter(
        "cached",
        "It reports what PyTorch keeps and no tensor uses",
        "What is reserved and not allocated is the cache. Read both when the result is deleted, before empty_cache().",
    ),
    meter(
        "given_back",
        "It reports what empty_cache() gives back",
        "Read what is reserved before and after it: a segment that holds a tensor stays.",
    ),
]
