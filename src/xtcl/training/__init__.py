"""Training of encoders: from positives to embeddings."""

from xtcl.training.trainer import TrainingResult, train

__all__ = ["TrainingResult", "train"]
