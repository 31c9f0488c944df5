"""From positives to embeddings: the contrastive loss, the encoders, the trainer."""
