"""The gradebook of a class: made of the journal, what was handed in, and the rules, at any time; and its exports.

`model` has the data, `make` makes them, `database` keeps them in SQLite; each of the other modules writes one format.
"""
