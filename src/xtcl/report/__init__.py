"""What a run shows a person."""
