"""What work on a virtual GPU costs, and when it runs: prices from spec sheets and a few fitted factors, timelines."""
