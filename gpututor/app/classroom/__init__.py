"""The instructor's screens: a class by student and by exercise, and each submission with its report."""
