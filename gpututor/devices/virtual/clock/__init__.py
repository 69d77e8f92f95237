"""Prices of kernels on a virtual GPU, from spec sheets and a few fitted factors. Imports no torch."""
