"""The plain verbs, one file each."""
