"""Asking for a grade: the report, and the client that starts the judge. No torch here."""
