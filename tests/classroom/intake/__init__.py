"""Tests of a class's submitted files: layouts, names, refusals."""
