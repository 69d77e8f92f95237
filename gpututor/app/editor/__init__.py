"""The editor and its parts."""
