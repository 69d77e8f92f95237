"""`torch.profiler` with CUDA: torch's own profiler sees the operators, the virtual clock times their work."""
