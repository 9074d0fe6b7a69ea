"""What every room of the engine is on: texts, edits of them, kinds of file, findings of its own."""
