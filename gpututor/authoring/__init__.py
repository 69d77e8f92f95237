"""Tools for authors of exercises: verification, mutants of solutions, new exercises. Never imports torch."""
