"""A kernel in Triton: scale, shift and clamp a vector in one pass."""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def line_kernel(x_ptr, out_ptr, n, scale, shift, SIZE: tl.constexpr):
    offsets = tl.arange(0, SIZE)
    # TODO: let each program work on its own block, and mask the end.
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


def first_kernel(
    x: torch.Tensor, scale: float, shift: float
) -> torch.Tensor:
    """Return scale * x + shift, with zeros for negative values."""
    out = torch.empty_like(x)
    n = x.numel()
    grid = (1,)
    line_kernel[grid](x, out, n, scale, shift, SIZE=BLOCK)
    return out


if __name__ == "__main__":
    if torch.cuda.is_available():
        x = torch.tensor([1.0, -2.0], device="cuda")
        print(first_kernel(x, 3.0, 1.0))
    else:
        print("Triton kernels need a GPU, and there is none here.")
