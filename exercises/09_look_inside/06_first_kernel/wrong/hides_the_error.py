# fails: in_bounds
# Catches the error of lanes beyond the end.
import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def line_kernel(x_ptr, out_ptr, n, scale, shift, SIZE: tl.constexpr):
    offsets = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = offsets < n
    x = tl.load(x_ptr + offsets)
    y = tl.maximum(scale * x + shift, 0.0)
    tl.store(out_ptr + offsets, y)


def first_kernel(x: torch.Tensor, scale: float, shift: float) -> torch.Tensor:
    """Return scale * x + shift, with zeros for negative values."""
    out = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, BLOCK),)
    try:
        line_kernel[grid](x, out, n, scale, shift, SIZE=BLOCK)
    except RuntimeError:
        out = (scale * x + shift).relu()
    return out
