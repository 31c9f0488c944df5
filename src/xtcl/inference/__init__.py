"""What a fitted model tells a person: tables by node id, and explanations."""
