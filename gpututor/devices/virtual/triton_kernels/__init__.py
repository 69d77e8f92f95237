"""Triton kernels on the virtual GPU: Triton's interpreter computes, and each launch is priced by its work.

Nothing here imports Triton before the program does; see `hook`.
"""

from __future__ import annotations

from gpututor.devices.virtual.triton_kernels.hook import triton_kernels

__all__ = ["triton_kernels"]
