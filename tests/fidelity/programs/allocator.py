"""The segments that the caching allocator asks for and keeps, and how memory ends."""

from __future__ import annotations

from typing import Any

import torch

from tests.fidelity.amounts import MIB, allocated, reserved, taken
from tests.fidelity.program import gives, raises

ALLOCATOR = "c10/cuda/CUDACachingAllocator.cpp"
SMALL = f"{ALLOCATOR}: kSmallBuffer"
LARGE = f"{ALLOCATOR}: kLargeBuffer, kMinLargeAlloc, kRoundLarge"
MEMORY_PY = "torch/cuda/memory.py"


@gives((2 * MIB, 2 * MIB), source=SMALL)
def small_tensors_share_a_segment_of_2_mib() -> Any:
    x = taken(1)
    first = reserved()
    y = taken(MIB)
    return first, reserved() + 0 * (len(x) + len(y))


@gives(4 * MIB, source=SMALL)
def a_full_small_segment_is_followed_by_another() -> Any:
    kept = [taken(MIB) for _ in range(3)]
    return reserved() + 0 * len(kept)


@gives((20 * MIB, 20 * MIB), source=LARGE)
def tensors_of_1_to_10_mib_share_a_segment_of_20_mib() -> Any:
    x = taken(MIB + 1)
    first = reserved()
    y = taken(9 * MIB)
    return first, reserved() + 0 * (len(x) + len(y))


@gives([10 * MIB, 12 * MIB, 100 * MIB], source=LARGE)
def from_10_mib_on_segments_are_rounded_to_2_mib() -> Any:
    sizes = []
    for size in (10 * MIB, 10 * MIB + 1, 99 * MIB + 1):
        x = taken(size)
        sizes.append(reserved())
        del x
        torch.cuda.empty_cache()
    return sizes


@gives((0, 20 * MIB, 20 * MIB), source=f"{ALLOCATOR}: free_block")
def freed_memory_is_kept_and_used_again() -> Any:
    before = allocated()
    x = taken(5 * MIB)
    del x
    kept = allocated() - before, reserved()
    y = taken(15 * MIB - 1)
    return *kept, reserved() + 0 * len(y)


@gives((12 * MIB, 0), source=f"{ALLOCATOR}: release_cached_blocks")
def empty_cache_gives_back_what_nobody_uses() -> Any:
    x = taken(12 * MIB)
    del x
    before = reserved()
    torch.cuda.empty_cache()
    return before, reserved()


@gives((20 * MIB, 512), source=f"{ALLOCATOR}: release_cached_blocks")
def empty_cache_keeps_a_segment_with_one_tensor_in_it() -> Any:
    big, small = taken(8 * MIB), taken(2 * MIB)
    del big
    torch.cuda.empty_cache()
    kept = reserved()
    del small
    return kept, allocated() + 512


@raises(
    torch.OutOfMemoryError,
    "CUDA out of memory. Tried to allocate 800000000.00 GiB. GPU 0 has a total capacity of … of which … is free. …"
    "Of the allocated memory … is allocated by PyTorch, and … is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  "
    "See documentation for Memory Management  …",
    source="test/test_cuda.py: test_out_of_memory",
)
def more_memory_than_there_is() -> Any:
    return torch.empty(2**30 * 800_000_000, dtype=torch.int8, device="cuda")


@raises(
    torch.OutOfMemoryError,
    "CUDA out of memory. Tried to allocate more than 1EB memory.",
    source="test/test_cuda.py: test_out_of_memory",
)
def more_memory_than_an_exabyte() -> Any:
    return torch.empty(2**30 * 8_000_000_000, dtype=torch.int8, device="cuda")


@gives((True, True, True, 1), source="test/test_cuda.py: test_out_of_memory")
def work_goes_on_after_memory_ran_out() -> Any:
    x = torch.zeros(4, device="cuda")
    before, ooms = allocated(), torch.cuda.memory_stats()["num_ooms"]
    try:
        torch.empty(2**30 * 800_000_000, dtype=torch.int8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        is_runtime_error = isinstance(error, RuntimeError)
    same = allocated() == before
    return is_runtime_error, same, bool((x.fill_(1) == 1).all()), torch.cuda.memory_stats()["num_ooms"] - ooms


@gives((True, True), source="test/test_cuda.py: test_out_of_memory_retry")
def what_was_freed_is_given_back_before_memory_runs_out() -> Any:
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(48 * MIB / total)
    try:
        first = taken(30 * MIB)
        try:
            taken(30 * MIB)
            second_fits = True
        except torch.cuda.OutOfMemoryError:
            second_fits = False
        del first
        return not second_fits, taken(40 * MIB).numel() == 40 * MIB
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@raises(TypeError, "Invalid type for fraction argument, must be `float`", source=MEMORY_PY)
def a_memory_fraction_that_is_a_whole_number() -> Any:
    torch.cuda.set_per_process_memory_fraction(1)


@raises(ValueError, "Invalid fraction value: 2.0. Allowed range: 0~1", source=MEMORY_PY)
def a_memory_fraction_above_one() -> Any:
    torch.cuda.set_per_process_memory_fraction(2.0)


@gives((0.5, 1.0), source="test/test_cuda.py: test_get_per_process_memory_fraction")
def a_memory_fraction_is_remembered() -> Any:
    torch.cuda.set_per_process_memory_fraction(0.5)
    half = torch.cuda.get_per_process_memory_fraction()
    torch.cuda.set_per_process_memory_fraction(1.0)
    return half, torch.cuda.get_per_process_memory_fraction()
