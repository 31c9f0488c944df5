"""Early stopping by a score, against the rule written out over a list of scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.training.early_stopping import EarlyStopping

NAN = float("nan")


def saying(scores: Iterable[float]) -> Callable[[Tensor], float]:
    """A scorer with its scores prepared."""
    prepared = iter(scores)
    return lambda _: next(prepared)


def follow(stopping: EarlyStopping, epochs: int) -> int:
    """The epoch a training would stop after, whose embedding of an epoch is its number."""
    for epoch in range(1, epochs + 1):
        if stopping.should_stop(epoch, partial(torch.tensor, float(epoch))):
            return epoch
    return epochs


def rule(scores: list[float], every: int, patience: int, epochs: int) -> tuple[int, int]:
    """The best epoch (0: none) and the last, from the whole list of scores."""
    seen = scores[: epochs // every]
    mark, marked = -float("inf"), 0
    for last, score in enumerate(seen, start=1):
        if score > mark + EarlyStopping.min_gain:
            mark, marked = score, last * every
        paused = last * every - marked >= patience + marked
        if paused or _fallen(seen[:last]):
            return _first_best(seen[:last]) * every, last * every
    return _first_best(seen) * every, epochs


def _fallen(seen: list[float]) -> bool:
    size = EarlyStopping.num_scores
    means = [sum(seen[i : i + size]) / size for i in range(len(seen) - size + 1)]
    numbers = [mean for mean in means if mean > -float("inf")]
    return bool(numbers) and means[-1] < max(numbers) - EarlyStopping.max_drop


def _first_best(seen: list[float]) -> int:
    numbers = [v for v in seen if v > -float("inf")]
    return seen.index(max(numbers)) + 1 if numbers else 0


@given(
    scores=st.lists(
        st.sampled_from((0.1, 0.2, 0.5, 0.5005, 0.501, 0.9, NAN, -float("inf"))),
        min_size=30,
        max_size=30,
    ),
    every=st.integers(1, 4),
    patience=st.integers(1, 4),
    epochs=st.integers(1, 30),
)
def test_is_the_rule(scores: list[float], every: int, patience: int, epochs: int) -> None:
    stopping = EarlyStopping(saying(scores), every, patience)
    best, last = rule(scores, every, patience, epochs)
    assert follow(stopping, epochs) == last
    assert stopping.best_epoch == best
    if best:
        assert stopping.embedding is not None
        assert stopping.embedding.item() == best
        assert stopping.best_score == scores[best // every - 1]
    else:
        assert stopping.embedding is None


@pytest.mark.parametrize(
    ("scores", "best", "last"),
    [
        ([0.5, 0.6, 0.6, 0.6, 0.6], 4, 10),  # a tie is not better
        ([0.5, 0.4, 0.6, 0.6, 0.6, 0.6], 6, 12),  # something better begins the count anew
        ([0.5, 0.499, 0.499], 2, 6),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 12, 12),
        ([-3.0, -2.0, NAN, NAN, NAN], 4, 10),
        ([0.5, 0.5004, 0.5008], 6, 6),  # too little to count as progress, and yet the best
        ([0.1, 0.4, 0.5, 0.5, 0.5, 0.48], 6, 12),  # a fall
        ([0.1, 0.4, 0.5, 0.5, 0.494, 0.5], 6, 12),  # one low score is none
        ([NAN], 0, 2),
    ],
)
def test_by_hand(scores: list[float], best: int, last: int) -> None:
    stopping = EarlyStopping(saying(scores), every=2, patience=2)
    assert follow(stopping, 12) == last
    assert stopping.best_epoch == best


@pytest.mark.parametrize(
    ("best_other", "last"),
    [(0.5, 14), (0.52, 14), (0.53, 8), (-float("inf"), 14)],  # 2 * 6 + 2, or 6 + 2
)
def test_what_is_far_behind_waits_less(best_other: float, last: int) -> None:
    stopping = EarlyStopping(
        saying([0.1, 0.4, 0.5, *[0.5] * 9]), every=2, patience=2, best_other=best_other
    )
    assert follow(stopping, 24) == last
    assert stopping.best_epoch == 6


def test_embeds_only_when_it_asks_and_scores_what_it_keeps() -> None:
    shown: list[Tensor] = []

    def scorer(embedding: Tensor) -> float:
        shown.append(embedding)
        return 1.0

    made: list[Tensor] = []

    def embed() -> Tensor:
        made.append(torch.zeros(1))
        return made[-1]

    stopping = EarlyStopping(scorer, every=3, patience=9)
    for epoch in range(1, 11):
        stopping.should_stop(epoch, embed)
    assert len(made) == len(shown) == 3
    assert stopping.embedding is shown[0] is made[0]


def test_training_too_short_to_be_scored() -> None:
    stopping = EarlyStopping(saying([]), every=10)
    assert follow(stopping, 9) == 9
    assert stopping.embedding is None
    assert stopping.best_epoch == 0


@pytest.mark.parametrize("options", [{"every": 0}, {"patience": 0}, {"every": -1}])
def test_impossible_options(options: dict[str, int]) -> None:
    known = {"every": 5, "patience": 25} | options
    message = f"every={known['every']} and patience={known['patience']} must be at least 1."
    with pytest.raises(UsageError, match=message):
        EarlyStopping(saying([]), **options)
