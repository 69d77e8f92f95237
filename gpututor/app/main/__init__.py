"""The main screen, in layers: each file adds one subject to the one that it builds on; `screen.py` is the whole."""
