"""Operators: find the devices of their tensors, run them on the CPU, and record the work of a GPU."""
