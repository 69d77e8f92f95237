"""`torch.profiler` with CUDA: torch's own profiler sees the operators, the virtual clock says when and how long."""
