"""Grading a whole class: what was handed in, the journal of gradings, the gradebook, and who does the work."""
