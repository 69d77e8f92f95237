"""Timing on real devices: the decision by simulation, the rest end to end on the CPU."""
