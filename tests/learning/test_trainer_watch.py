"""Training with early stopping."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from small_training import planted, run
from torch import Tensor

from xtcl.config import TrainingConfig
from xtcl.errors import DataError
from xtcl.training.early_stopping import EarlyStopping

SETTINGS = TrainingConfig(epochs=12, anchors=10, negatives=16)
DEEP: dict[str, object] = {"layers": 2, "hops": 1, "batch_norm": True}


def best_is(number: int) -> Callable[[Tensor], float]:
    """A scorer who likes the embedding that he is shown as that number best."""
    count = 0

    def scorer(_: Tensor) -> float:
        nonlocal count
        count += 1
        return -float(abs(count - number))

    return scorer


@pytest.mark.parametrize(("best", "trained_for"), [(1, 6), (2, 8), (4, 12), (5, 12), (6, 12)])
@pytest.mark.parametrize("encoder_options", [{}, DEEP])
def test_the_best_embedding_is_returned_and_training_stops(
    best: int, trained_for: int, encoder_options: dict[str, object]
) -> None:
    watch, epochs = EarlyStopping(best_is(best), every=2, patience=2), []
    _, watched = run(
        planted(30),
        SETTINGS,
        encoder_options=encoder_options,
        early_stopping=watch,
        on_epoch=lambda epoch, _: epochs.append(epoch),
    )
    assert epochs == list(range(1, trained_for + 1))
    assert len(watched.losses) == trained_for
    assert watch.best_epoch == 2 * best
    assert watched.embedding is watch.embedding
    # As good as training for that long in the first place: being watched changes nothing.
    short = TrainingConfig(epochs=2 * best, anchors=10, negatives=16)
    _, alone = run(planted(30), short, encoder_options=encoder_options)
    assert alone.embedding.numpy().tobytes() == watched.embedding.numpy().tobytes()
    assert alone.losses == watched.losses[: 2 * best]


def test_the_judge_sees_embeddings_without_dropout_or_gradient() -> None:
    shown: list[Tensor] = []

    def scorer(embedding: Tensor) -> float:
        shown.append(embedding)
        return 0.0

    module, _ = run(
        planted(30), SETTINGS, early_stopping=EarlyStopping(scorer, every=4, patience=3)
    )
    assert [tuple(each.shape) for each in shown] == [(30, 16)] * 3
    assert not any(each.requires_grad for each in shown)
    for epochs, each in zip((4, 8, 12), shown, strict=True):
        _, alone = run(planted(30), TrainingConfig(epochs=epochs, anchors=10, negatives=16))
        assert torch.equal(alone.embedding, each)
    assert not module.training


@pytest.mark.parametrize(
    "watch",
    [
        EarlyStopping(best_is(1), every=13),
        EarlyStopping(lambda _: float("nan"), every=2, patience=99),
    ],
    ids=["never asked", "never pleased"],
)
def test_without_a_score_the_last_embedding_is_returned(watch: EarlyStopping) -> None:
    _, watched = run(planted(30), SETTINGS, early_stopping=watch)
    _, alone = run(planted(30), SETTINGS)
    assert watch.best_epoch == 0
    assert torch.equal(watched.embedding, alone.embedding)


def test_a_best_embedding_that_overflowed_is_refused() -> None:
    def scorer(embedding: Tensor) -> float:
        embedding[0, 0] = float("inf")
        return 1.0

    with pytest.raises(DataError, match=r"The embedding overflowed in epoch 12\. Lower learning"):
        run(planted(30), SETTINGS, early_stopping=EarlyStopping(scorer, every=2, patience=99))
