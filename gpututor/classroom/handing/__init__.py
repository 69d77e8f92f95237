"""Handing out and handing in: a course for students, and a student's zip."""
