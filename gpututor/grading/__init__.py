"""Grading, for front ends and the judge: requests, events, reports, and the judge's client. Never imports torch."""
