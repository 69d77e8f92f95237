"""Widgets that show what the devices did in one attempt: one file a tab of the device screen, and what they share."""
