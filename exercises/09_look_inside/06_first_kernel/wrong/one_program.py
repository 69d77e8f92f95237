# fails: programs
# One program goes through all blocks; the rest of the GPU has nothing to do.
import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def line_kernel(x_ptr, out_ptr, n, scale, shift, SIZE: tl.constexpr):
    for start in range(0, n, SIZE):
        offsets = start + tl.arange(0, SIZE)
        inside = offsets < n
        x = tl.load(x_ptr + offsets, mask=inside)
        y = tl.maximum(scale * x + shift, 0.0)
        tl.store(out_ptr + offsets, y, mask=inside)


def first_kernel(x: torch.Tensor, scale: float, shift: float) -> torch.Tensor:
    """Return scale * x + shift, with zeros for negative values."""
    out = torch.empty_like(x)
    line_kernel[(1,)](x, out, x.numel(), scale, shift, SIZE=BLOCK)
    return out
