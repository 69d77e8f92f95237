"""Traces of devices: events in columns, and their summaries. No torch here."""
