"""The report of a run: an HTML page, and the pictures beside it."""
