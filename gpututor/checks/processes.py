"""Processes: every rank does its collectives, of the right size, and agrees with the others.

For exercises with `kind = "processes"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from gpututor.checks.bounds import (
    NO_LIMIT,
    Amount,
    describe_lines,
    describe_names,
    format_bounds,
    line_with_most,
    parse_bounds,
)
from gpututor.checks.model import Applies, Call, Check, Finding, Run, count, first_finding, in_each_call
from gpututor.checks.trees import LeafComparison, part_name, tensors_by_path
from gpututor.errors import CourseError
from gpututor.trace.events import Event, Kind

WHY = "Ranks that do not communicate train separate models: each is only as good as a single GPU's."
ADVICE = "Look at what each rank calls, and whether all of them call it."
WHY_COLLECTIVES = "A collective uses the link between the GPUs, and all ranks wait for the slowest."

Times = int | tuple[int, int | None]


def processes(
    collectives: dict[str, Times] | None = None,
    *,
    same: Sequence[str] = (),
    destroyed: bool = True,
    name: str = "processes",
    why: str = WHY,
    advice: str = "",
    on: Applies = "gpu",
) -> Check:
    """Check that every rank does the required collectives, agrees with the others, and ends its process group.

    `collectives`: the number for each rank, by a part of the operator's name, such as `allreduce`. A range is allowed
    too, and its end may be None. `same`: parts of each rank's result whose tensors must have the same bits in all
    ranks; "" is the whole. `destroyed`: the process group must be gone when the function returns.
    """
    wanted = {word: (times, times) if isinstance(times, int) else times for word, times in (collectives or {}).items()}
    for word, (least, most) in wanted.items():
        if least < 0 or (most is not None and most < least):
            raise CourseError(f"check {name!r}: {word!r} {least} to {most} times", "Give a range such as (1, None).")

    def find(run: Run, call: Call) -> Finding | None:
        for expected, got, tip in _problems(call, _ranks(call, name), wanted, same, destroyed):
            return run.finding(call, expected, got, advice=tip)
        return None

    return Check(name, lambda _: "All ranks work together, and agree", in_each_call(find), (), why, advice, on)


def collectives(
    by_name: Mapping[str, Amount] | None = None,
    bytes_by_name: Mapping[str, Amount] | None = None,
    *,
    name: str = "collectives",
    why: str = WHY_COLLECTIVES,
    advice: str = "",
    on: Applies = "gpu",
) -> Check:
    """Check how many collectives each rank does in a call, and how many bytes it contributes to them.

    A key is a part of the operator's name without underscores, such as `allreduce`; "" is every collective. An amount
    is exact, (low, high), or a function of (drawn, machine). Raises `CourseError` if there is nothing to count.
    """
    numbers, sizes = dict(by_name or {}), dict(bytes_by_name or {})
    if not numbers and not sizes:
        problem = f"check {name!r}: nothing to count"
        raise CourseError(problem, "In checks.py, give it by_name={…} or bytes_by_name={…}.")

    def find(run: Run, call: Call) -> Finding | None:
        ranks = list(enumerate(_ranks(call, name)))
        return first_finding(
            _wrong_amount(run, call, number, _collectives_of(rank, word), word, limits, in_bytes)
            for amounts, in_bytes in ((numbers, False), (sizes, True))
            for word, amount in amounts.items()
            for limits in (parse_bounds(amount, call, run.machine, name),)
            for number, rank in ranks
        )

    sentence = "Each rank communicates as much as the work needs, and no more"
    return Check(name, lambda _: sentence, in_each_call(find), (), why, advice, on)


def _ranks(call: Call, name: str) -> tuple[Call, ...]:
    """Return the call in each rank. Raises `CourseError` if the function runs in one process."""
    if not call.ranks:
        problem = f"check {name!r}: the function runs in one process"
        raise CourseError(problem, 'Write kind = "processes" in exercise.toml.')
    return call.ranks


def _collectives_of(rank: Call, word: str) -> list[Event]:
    """Return the collectives whose names contain `word` if underscores are left out."""
    return [event for event in rank.trace if event.kind is Kind.COLLECTIVE and word in event.name.replace("_", "")]


def _wrong_amount(
    run: Run, call: Call, rank: int, events: list[Event], word: str, limits: tuple[int, int], in_bytes: bool
) -> Finding | None:
    low, high = limits
    amount = sum(event.size_bytes for event in events) if in_bytes else len(events)
    if low <= amount <= high:
        return None
    what = word or "collective"
    if in_bytes:
        expected = f"{format_bounds(low, high, 'byte')} in {count(2, what).removeprefix('2 ')} of each rank"
        got = f"{count(amount, 'byte')} in rank {rank}"
    else:
        expected, got = f"{format_bounds(low, high, what)} in each rank", f"{count(amount, what)} in rank {rank}"
    if events:
        got += f", {describe_lines(events)}: {describe_names(events)}"
    return run.finding(call, expected, got, line_with_most(events))


def _problems(
    call: Call,
    ranks: tuple[Call, ...],
    wanted: dict[str, tuple[int, int | None]],
    same: Sequence[str],
    destroyed: bool,
) -> Iterator[tuple[str, str, str]]:
    """Yield expected, got, and advice."""
    for number, rank in enumerate(ranks):
        done = [event.name for event in rank.trace if event.kind is Kind.COLLECTIVE]
        if not done and not (wanted and all(least == 0 for least, _ in wanted.values())):
            yield "every rank to take part", f"rank {number} did no collective on its device", ADVICE
        for word, (least, most) in wanted.items():
            times = sum(word in name for name in done)
            if times < least or (most is not None and times > most):
                limits = format_bounds(least, NO_LIMIT if most is None else most, word)
                yield f"{limits} in each rank", f"{count(times, word)} in rank {number}", ADVICE
    for part in same:
        yield from _differences(call, part)
    for number, rank in enumerate(call.ranks):
        if destroyed and rank.group_left:
            tip = "Call torch.distributed.destroy_process_group() before you return, in every rank."
            yield "no process group when the function returns", f"rank {number} did not end its process group", tip


def _differences(call: Call, part: str) -> Iterator[tuple[str, str, str]]:
    first, *others = [_tensors(rank, part) for rank in call.ranks]
    what = part_name(part, call.ranks[0].output)
    expected = f"the same {part or 'result'} in all ranks"
    if not first:
        yield expected, f"{what} of rank 0 holds no tensor", ""
    alike = LeafComparison()
    for number, other in enumerate(others, 1):
        if first.keys() != other.keys():
            yield expected, f"{what} has different parts in rank 0 and rank {number}", ""
            return
        for path, tensor in first.items():
            twin, name = other[path], part_name(path, call.ranks[0].output)
            if alike.are_equal(tensor, twin):
                continue  # one tensor in many places
            if tensor.shape != twin.shape or tensor.dtype != twin.dtype:
                yield expected, f"{name} has different shapes or dtypes in rank 0 and rank {number}", ""
            elif not torch.equal(_bits(tensor), _bits(twin)):
                off = int((_bits(tensor) != _bits(twin)).flatten(tensor.dim()).any(-1).sum())
                elements = f"{off:,} of {tensor.numel():,} elements"
                got = f"{name} differs between rank 0 and rank {number} ({elements})"
                yield expected, got, "Start with the same parameters in all ranks, and average their gradients."
            else:
                alike.join(tensor, twin)


def _tensors(rank: Call, part: str) -> dict[str, torch.Tensor]:
    return {
        path: tensor.values
        for path, tensor in tensors_by_path(rank.output).items()
        if not part or path == part or path.startswith(f"{part}.")
    }


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of each element: nan equals itself, and -0 differs from 0."""
    return tensor.contiguous().unsqueeze(-1).view(torch.uint8)
