"""Watching real devices: when their work ran, what their memory did, what made the host wait."""
