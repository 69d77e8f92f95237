"""How the platforms name what they export: for each layout, whose a file is, by the names that lead to it."""
