"""What work on a virtual GPU costs in time: prices of kernels, from spec sheets and a few fitted factors. Imports no torch."""
