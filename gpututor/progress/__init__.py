"""The learner's attempts, hints and notes, stored in SQLite."""
