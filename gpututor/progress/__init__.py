"""What the learner has done so far."""
