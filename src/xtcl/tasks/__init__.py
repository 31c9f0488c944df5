"""What a task asks of an embedding: heads that turn rows into answers, metrics that judge them."""
