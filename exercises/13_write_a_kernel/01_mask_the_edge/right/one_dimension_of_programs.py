# One dimension of programs over all elements; the column is a remainder.
import torch
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def neighbor_kernel(x_ptr, out_ptr, columns, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    column = at % columns
    inside = at < n
    largest = tl.load(x_ptr + at, mask=inside)
    for step in tl.static_range(-1, 2, 2):
        there = (column + step >= 0) & (column + step < columns) & inside
        other = tl.load(x_ptr + at + step, mask=there, other=float("-inf"))
        largest = tl.maximum(largest, other)
    tl.store(out_ptr + at, largest, mask=inside)


def largest_neighbor(x):
    out = torch.empty_like(x)
    n = x.numel()
    neighbor_kernel[(triton.cdiv(n, BLOCK),)](x, out, x.shape[1], n, SIZE=BLOCK)
    return out
