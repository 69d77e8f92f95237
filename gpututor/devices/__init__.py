"""Devices, real and virtual, and the recorder that sees what they do."""
