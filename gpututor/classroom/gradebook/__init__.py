"""The gradebook of a class and its exports, made from the journal, the submissions and the rules at any time.

`model` has the data, `build` makes them, `exports` has a module for each format.
"""
