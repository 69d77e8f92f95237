"""What a device did: events in columns, and their summaries. No torch here."""
