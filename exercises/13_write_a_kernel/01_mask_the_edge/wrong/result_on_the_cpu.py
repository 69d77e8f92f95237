# fails: placement
# Returns the result on the CPU.
import torch
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def neighbor_kernel(x_ptr, out_ptr, columns, SIZE: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    least = float("-inf")
    inside = at < columns
    here = tl.load(x_ptr + row + at, mask=inside, other=least)
    has_left = (at > 0) & inside
    left = tl.load(x_ptr + row + at - 1, mask=has_left, other=least)
    has_right = at < columns - 1
    right = tl.load(x_ptr + row + at + 1, mask=has_right, other=least)
    largest = tl.maximum(here, tl.maximum(left, right))
    tl.store(out_ptr + row + at, largest, mask=inside)


def largest_neighbor(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    grid = (rows, triton.cdiv(columns, BLOCK))
    neighbor_kernel[grid](x, out, columns, SIZE=BLOCK)
    return out.cpu()
