"""Timing on real devices: pairs of a baseline and a submission in sibling workers, by the judge's own clock."""
