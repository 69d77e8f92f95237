"""The course and the learner's files: what an exercise is, finding and reading them, the workspace."""
