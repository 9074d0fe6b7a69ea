"""What rules ask of the values of a file, over its value graph: each question has one place."""
