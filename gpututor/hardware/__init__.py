"""Descriptions of hardware, without torch: GPU models, this machine's devices, and the scenario of an exercise."""
