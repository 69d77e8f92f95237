"""Memory of tensors, the segments that the caching allocator asks for and keeps, and how memory ends."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.fidelity.program import MIB, allocated, gives, raises, reserved, taken

ALLOCATOR = "c10/cuda/CUDACachingAllocator.cpp"
ROUNDING = f"{ALLOCATOR}: kMinBlockSize"
MEMORY_PY = "torch/cuda/memory.py"


@gives([512, 512, 1024, 4096], source=ROUNDING)
def sizes_are_rounded_up_to_512_bytes() -> Any:
    sizes = []
    for count in (1, 128, 129, 1000):
        before = allocated()
        x = torch.zeros(count, device="cuda")
        sizes.append(allocated() - before)
        del x
    return sizes


@gives(0, source=ALLOCATOR)
def an_empty_tensor_takes_nothing() -> Any:
    before = allocated()
    x = torch.empty(0, device="cuda")
    return allocated() - before + x.numel()


@gives(0, source="docs/source/tensor_view.rst")
def views_take_nothing() -> Any:
    x = torch.zeros(64, 64, device="cuda")
    before = allocated()
    views = x[0], x.t(), x.view(-1), x.detach(), x.expand(8, 64, 64), x.unbind()
    return allocated() - before + 0 * len(views)


@gives(16384, source="docs/source/tensor_view.rst")
def a_slice_keeps_its_whole_storage() -> Any:
    before = allocated()
    x = torch.zeros(64, 64, device="cuda")
    part = x[:1]
    del x
    return allocated() - before + 0 * part.numel()


@gives((0, 4096), source="docs/source/tensor_view.rst")
def an_in_place_operator_takes_nothing_and_a_plain_one_its_result() -> Any:
    x = torch.zeros(1024, device="cuda")
    before = allocated()
    x.add_(1)
    after = allocated()
    y = x + 1
    return after - before, allocated() - after + 0 * y.numel()


@gives((2048, 8192), source="docs/source/tensor_attributes.rst: torch.dtype")
def half_takes_half_and_double_twice() -> Any:
    x = torch.zeros(1024, device="cuda")
    before = allocated()
    h = x.half()
    middle = allocated()
    d = x.double()
    return middle - before, allocated() - middle + 0 * (len(h) + len(d))


@gives((4096, 0), source=MEMORY_PY)
def memory_is_counted_for_each_gpu() -> Any:
    first, second = torch.cuda.memory_allocated(0), torch.cuda.memory_allocated("cuda:1")
    x = torch.zeros(1024, device="cuda:1")
    return torch.cuda.memory_allocated(x.device) - second, torch.cuda.memory_allocated(0) - first


@gives((4096, 0), source="torch/optim/optimizer.py: zero_grad")
def gradients_take_memory_until_they_are_set_to_none() -> Any:
    w = torch.zeros(1024, device="cuda", requires_grad=True)
    before = allocated()
    w.sum().backward()
    with_gradient = allocated() - before
    torch.optim.SGD([w], lr=0.1).zero_grad()
    return with_gradient, allocated() - before


@gives((4096, 0), source="docs/source/notes/autograd.rst: saved tensors")
def what_backward_needs_lives_until_backward() -> Any:
    w = torch.ones(1024, device="cuda", requires_grad=True)
    w.grad = torch.zeros_like(w)
    before = allocated()
    y = w.exp().sum()
    held = allocated() - before - 512
    y.backward()
    return held, allocated() - before - 512


@gives(8192, source="torch/optim/adam.py")
def adam_keeps_two_figures_for_each_weight() -> Any:
    w = torch.zeros(1024, device="cuda", requires_grad=True)
    adam = torch.optim.Adam([w])
    w.sum().backward()
    before = allocated()
    adam.step()
    return allocated() - before


@gives(1024, source="torch/nn/modules/module.py: _apply")
def a_module_takes_one_block_for_each_parameter() -> Any:
    before = allocated()
    layer = nn.Linear(4, 4).cuda()
    return allocated() - before + 0 * layer.in_features


@gives((4096, 1024), source=MEMORY_PY)
def the_peak_stays_until_it_is_reset() -> Any:
    before = allocated()
    torch.cuda.reset_peak_memory_stats()
    x = torch.zeros(1024, device="cuda")
    del x
    y = torch.zeros(256, device="cuda")
    peak = torch.cuda.max_memory_allocated() - before
    torch.cuda.reset_peak_memory_stats()
    return peak, torch.cuda.max_memory_allocated() - before + 0 * len(y)


@gives(True, source=MEMORY_PY)
def the_names_of_the_figures_agree() -> Any:
    x = taken(3 * MIB)
    stats = torch.cuda.memory_stats()
    return (
        stats["allocated_bytes.all.current"] == allocated()
        and stats["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated()
        and stats["reserved_bytes.all.current"] == reserved()
        and stats["reserved_bytes.all.peak"] == torch.cuda.max_memory_reserved()
        and len(x) > 0
    )


@gives((1, 1, 1, 0), source="c10/core/CachingDeviceAllocator.h: DeviceStats")
def a_tensor_is_one_allocation_in_one_segment() -> Any:
    names = "allocation.all.current", "active.all.current", "segment.all.current", "num_ooms"
    before = torch.cuda.memory_stats()
    x = taken(30 * MIB)
    after = torch.cuda.memory_stats()
    return tuple(after[name] - before.get(name, 0) + 0 * len(x) for name in names)


@gives((1024, 1024), source="test/test_cuda.py: test_memory_stats")
def active_bytes_go_up_and_come_down() -> Any:
    taken(1)  # before the first allocation of a process there are no figures
    before = torch.cuda.memory_stats()["active_bytes.all.current"]
    freed = torch.cuda.memory_stats()["active_bytes.all.freed"]
    x = torch.randn(256, device="cuda")
    during = torch.cuda.memory_stats()["active_bytes.all.current"] - before
    del x
    return during, torch.cuda.memory_stats()["active_bytes.all.freed"] - freed


@gives((100, 512), source=f"{ALLOCATOR}: requested_bytes")
def what_was_asked_for_is_counted_beside_what_was_given() -> Any:
    before = torch.cuda.memory_stats()
    x = taken(100)
    after = torch.cuda.memory_stats()
    names = "requested_bytes.all.current", "allocated_bytes.all.current"
    return tuple(after[name] - before.get(name, 0) + 0 * len(x) for name in names)


@gives((True, True), source=MEMORY_PY)
def free_and_total_memory_agree_with_the_properties() -> Any:
    free, total = torch.cuda.mem_get_info()
    return 0 < free <= total, total == torch.cuda.get_device_properties(0).total_memory


@gives([True, True, True], source=MEMORY_PY)
def the_summary_is_a_table() -> Any:
    lines = torch.cuda.memory_summary().splitlines()
    return [
        lines[0] == "|" + "=" * 75 + "|",
        lines[1] == "|                  PyTorch CUDA memory summary, device ID 0                 |",
        any(line.startswith("| Allocated memory      |") for line in lines),
    ]


@gives((16, True), source="torch/storage.py: UntypedStorage")
def the_storage_knows_its_bytes_and_views_share_it() -> Any:
    x = torch.zeros(4, device="cuda")
    return x.untyped_storage().nbytes(), x.untyped_storage().data_ptr() == x[1:].untyped_storage().data_ptr()


@gives((True, True, 4), source="docs/source/tensors.rst: data_ptr")
def addresses_are_aligned_and_move_with_the_offset() -> Any:
    x, y = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    return x.data_ptr() % 16 == 0, x.data_ptr() != y.data_ptr(), x[1:].data_ptr() - x.data_ptr()


SMALL = f"{ALLOCATOR}: kSmallBuffer"
LARGE = f"{ALLOCATOR}: kLargeBuffer, kMinLargeAlloc, kRoundLarge"


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
