"""Grading of a whole class: intake, jobs, executors, gradebook and review."""
