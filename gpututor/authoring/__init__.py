"""What authors of exercises use: the gate that says what is not so, mutants of solutions, new exercises. No torch."""
