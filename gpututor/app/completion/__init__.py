"""What can stand at the cursor: names of the file, and jedi's answers from a child process."""
