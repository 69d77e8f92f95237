"""The course and the learner's files: exercises as data, loading a course, notebooks, the workspace."""
