"""Costs: modelled times of kernels, copies and collectives."""
