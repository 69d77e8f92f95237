"""Clocks of host and streams: when modelled work runs."""
