"""What every room of the engine stands on: texts, edits of them, kinds of file, findings of its own."""
