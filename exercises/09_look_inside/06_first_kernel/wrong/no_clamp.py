# fails: parity
# Forgets that negative values become zero.
import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def line_kernel(x_ptr, out_ptr, n, scale, shift, SIZE: tl.constexpr):
    offsets = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = scale * x + shift
    tl.store(out_ptr + offsets, y, mask=inside)


def first_kernel(x: torch.Tensor, scale: float, shift: float) -> torch.Tensor:
    """Return scale * x + shift, with zeros for negative values."""
    out = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, BLOCK),)
    line_kernel[grid](x, out, n, scale, shift, SIZE=BLOCK)
    return out
