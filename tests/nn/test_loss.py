"""The loss against Equation 1 of the paper, written out in loops over numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from xtcl.config import Similarity
from xtcl.errors import UsageError
from xtcl.nn.functional import normalize
from xtcl.nn.loss import FEW_POSITIVES, ContrastiveLoss, contrastive_loss

SIMILARITIES: tuple[Similarity, ...] = ("cosine", "inner")


def inner(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def cosine(a: list[float], b: list[float]) -> float:
    length = math.sqrt(inner(a, a)) * math.sqrt(inner(b, b))
    return inner(a, b) / length if length > 0 else 0.0


def equation_1(
    z: Tensor,
    positives: list[list[int]],
    negatives: list[list[int]],
    anchors: list[int],
    weights: list[list[float]],
    similarity: Similarity,
    temperature: float,
) -> float:
    rows = z.tolist()
    measure = inner if similarity == "inner" else cosine
    losses = []
    for u, own, others, counts in zip(anchors, positives, negatives, weights, strict=True):
        below = sum(math.exp(measure(rows[u], rows[v]) / temperature) for v in others if v != u)
        terms, whole = 0.0, 0.0
        for v, weight in zip(own, counts, strict=True):
            if v != -1:
                above = math.exp(measure(rows[u], rows[v]) / temperature)
                terms -= weight * math.log(above / (above + below))
                whole += weight
        if whole > 0:
            losses.append(terms / whole)
    return sum(losses) / len(losses) if losses else 0.0


class Case:
    """A small random problem with empty places, empty rows, and anchors among the negatives."""

    def __init__(self, seed: int, *, shared: bool, subset: bool, weighted: bool) -> None:
        rng = np.random.default_rng(seed)
        count, places, others = (int(rng.integers(low, 7)) for low in (2, 1, 1))
        self.z = torch.from_numpy(rng.normal(size=(count, int(rng.integers(1, 5)))))
        anchors = rng.permutation(count)[: int(rng.integers(1, count + 1))]
        self.anchors = torch.from_numpy(anchors if subset else np.arange(count))
        rows = len(self.anchors)
        positives = rng.integers(-1, count, size=(rows, places))
        positives[rng.random(rows) < 0.2] = -1
        self.positives = torch.from_numpy(positives)
        self.negatives = torch.from_numpy(
            rng.integers(count, size=others if shared else (rows, others))
        )
        self.weights = torch.from_numpy(
            rng.random((rows, places)) * 3 if weighted else positives**0
        )
        self.chosen: dict[str, Any] = {}
        if subset:
            self.chosen["anchors"] = self.anchors
        if weighted:
            self.chosen["weights"] = self.weights

    def expected(self, similarity: Similarity, temperature: float) -> float:
        rows = len(self.anchors)
        return equation_1(
            self.z,
            self.positives.tolist(),
            self.negatives.expand(rows, -1).tolist(),
            self.anchors.tolist(),
            self.weights.tolist(),
            similarity,
            temperature,
        )

    def loss(self, z: Tensor, **options: Any) -> Tensor:
        return contrastive_loss(z, self.positives, self.negatives, **self.chosen, **options)


variants = pytest.mark.parametrize(
    ("shared", "subset", "weighted"),
    [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)],
)
similarities = pytest.mark.parametrize("similarity", SIMILARITIES)


@given(
    seed=st.integers(0, 10**6),
    shared=st.booleans(),
    subset=st.booleans(),
    weighted=st.booleans(),
    similarity=st.sampled_from(SIMILARITIES),
    temperature=st.sampled_from((0.1, 0.5, 1.0, 3.0)),
)
def test_is_equation_1(
    seed: int,
    shared: bool,
    subset: bool,
    weighted: bool,
    similarity: Similarity,
    temperature: float,
) -> None:
    case = Case(seed, shared=shared, subset=subset, weighted=weighted)
    loss = case.loss(case.z, similarity=similarity, temperature=temperature)
    assert loss.item() == pytest.approx(case.expected(similarity, temperature), rel=1e-10)


def test_the_literal_equation_on_numbers_worked_by_hand() -> None:
    z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 5.0], [math.log(3.0), 0.0]]).double()
    loss = contrastive_loss(
        z,
        torch.tensor([[3]]),
        torch.tensor([2, 2]),
        anchors=torch.tensor([0]),
        similarity="inner",
        temperature=1.0,
    )
    # e^{s(0,3)} = 3 and e^{s(0,2)} = 1, twice: -log(3 / 5).
    assert loss.item() == pytest.approx(math.log(5 / 3), rel=1e-6)


@variants
@similarities
def test_gradient(shared: bool, subset: bool, weighted: bool, similarity: Similarity) -> None:
    for seed in range(3):
        case = Case(seed, shared=shared, subset=subset, weighted=weighted)
        z = case.z.clone().requires_grad_()
        assert torch.autograd.gradcheck(
            lambda z, case=case: case.loss(z, similarity=similarity, temperature=0.7), (z,)
        )


def test_an_anchor_among_its_own_negatives_does_not_count() -> None:
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    anchor, positive = torch.tensor([1]), torch.tensor([[2]])
    with_itself = contrastive_loss(z, positive, torch.tensor([1, 3, 1]), anchors=anchor)
    without = contrastive_loss(z, positive, torch.tensor([3]), anchors=anchor)
    another = contrastive_loss(z, positive, torch.tensor([0, 3]), anchors=anchor)
    torch.testing.assert_close(with_itself, without)
    assert another > without


def test_with_no_negative_but_itself_there_is_nothing_to_lose() -> None:
    z = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = contrastive_loss(z, torch.tensor([[2]]), torch.tensor([1, 1]), anchors=torch.tensor([1]))
    torch.autograd.backward(loss)
    assert loss.item() == 0.0
    assert z.grad is not None
    assert torch.equal(z.grad, torch.zeros_like(z))


def test_empty_places_and_empty_rows_change_nothing() -> None:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    negatives = torch.tensor([3, 4])
    bare = contrastive_loss(z, torch.tensor([[1, 2]]), negatives, anchors=torch.tensor([0]))
    padded = contrastive_loss(
        z,
        torch.tensor([[-1, 1, -1, 2], [-1, -1, -1, -1]]),
        negatives,
        anchors=torch.tensor([0, 2]),
    )
    torch.testing.assert_close(padded, bare)


def test_what_stands_in_for_an_empty_place_does_not_matter() -> None:
    # Node 0 is looked up for the empty place, and its inner product overflows.
    z = torch.tensor([[-1e30], [1e30], [0.0]], requires_grad=True)
    loss = contrastive_loss(
        z,
        torch.tensor([[2, -1]]),
        torch.tensor([2]),
        anchors=torch.tensor([1]),
        similarity="inner",
    )
    torch.autograd.backward(loss)
    assert loss.item() == pytest.approx(math.log(2))
    assert z.grad is not None
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_without_any_positive_the_loss_is_zero_and_has_a_gradient(
    weighted: bool, dtype: torch.dtype
) -> None:
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    # Empty places in one case, places that weigh nothing in the other.
    positives = torch.full((4, 2), 1 if weighted else -1)
    weights = torch.zeros(4, 2, dtype=dtype) if weighted else None
    loss = contrastive_loss(z, positives, torch.tensor([0, 1]), weights=weights)
    torch.autograd.backward(loss)
    assert loss.item() == 0.0
    assert z.grad is not None
    assert torch.equal(z.grad, torch.zeros_like(z))


def test_no_room_for_positives_is_as_none() -> None:
    z = torch.ones(4, 3, requires_grad=True)
    loss = contrastive_loss(z, torch.empty(4, 0, dtype=torch.int64), torch.tensor([0]))
    torch.autograd.backward(loss)
    assert loss.item() == 0.0


@similarities
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_finite_for_huge_logits(similarity: Similarity, sign: float) -> None:
    z = torch.tensor([[100.0, 0.0], [sign * 100.0, 0.0], [-sign * 100.0, 0.0]], requires_grad=True)
    loss = contrastive_loss(
        z,
        torch.tensor([[1]]),
        torch.tensor([2]),
        anchors=torch.tensor([0]),
        similarity=similarity,
        temperature=1.0 if similarity == "inner" else 1e-4,
    )
    torch.autograd.backward(loss)
    # The two logits are +-1e4, so the loss is log(1 + e^{-+2e4}).
    assert loss.item() == pytest.approx(0.0 if sign > 0 else 2e4, rel=1e-5)
    assert z.grad is not None
    assert z.grad.isfinite().all()


@similarities
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 3e-3), (torch.float32, 1e-5)]
)
def test_works_in_less_than_double_precision(
    similarity: Similarity, dtype: torch.dtype, tolerance: float
) -> None:
    case = Case(3, shared=True, subset=False, weighted=True)
    z = case.z.to(dtype).requires_grad_()
    loss = case.loss(z, similarity=similarity)
    torch.autograd.backward(loss)
    assert loss.item() == pytest.approx(case.expected(similarity, 0.5), rel=tolerance)
    assert z.grad is not None
    assert z.grad.dtype == dtype
    assert z.grad.isfinite().all()


def test_half_precision_has_room_for_many_anchors() -> None:
    count = 40_000
    z = torch.ones(count, 1, dtype=torch.float16)
    loss = contrastive_loss(z, torch.zeros(count, 1, dtype=torch.int64), torch.arange(64))
    # Every cosine is 1; the first 64 anchors meet themselves and have one negative fewer.
    expected = (64 * math.log(64) + (count - 64) * math.log(65)) / count
    assert loss.item() == pytest.approx(expected, rel=1e-3)


@given(seed=st.integers(0, 10**6), shared=st.booleans(), similarity=st.sampled_from(SIMILARITIES))
def test_order_does_not_matter(seed: int, shared: bool, similarity: Similarity) -> None:
    case = Case(seed, shared=shared, subset=True, weighted=True)
    rng = np.random.default_rng(seed)
    before = case.loss(case.z, similarity=similarity)
    places = torch.from_numpy(rng.permutation(case.positives.shape[1]))
    case.positives = case.positives[:, places]
    case.chosen["weights"] = case.weights[:, places]
    case.negatives = case.negatives[
        ..., torch.from_numpy(rng.permutation(case.negatives.shape[-1]))
    ]
    torch.testing.assert_close(case.loss(case.z, similarity=similarity), before)


@given(seed=st.integers(0, 10**6), factor=st.sampled_from((1e-3, 7.0, 1e6)))
def test_the_scale_of_weights_does_not_matter(seed: int, factor: float) -> None:
    case = Case(seed, shared=True, subset=False, weighted=True)
    before = case.loss(case.z)
    case.chosen["weights"] = case.weights * factor
    torch.testing.assert_close(case.loss(case.z), before)


def test_whole_number_weights() -> None:
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    positives, negatives = torch.tensor([[1, 2]] * 4), torch.tensor([3, 0])
    whole, real = (
        contrastive_loss(z, positives, negatives, weights=torch.tensor([[2, 1]] * 4).to(dtype))
        for dtype in (torch.int64, torch.float32)
    )
    torch.testing.assert_close(whole, real)


@similarities
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rows_of_zeros(similarity: Similarity, dtype: torch.dtype) -> None:
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    z[[0, 3]] = 0  # as an anchor, a positive and a negative
    z.requires_grad_()
    positives = torch.tensor([[3], [0], [1], [2], [5], [4]])
    loss = contrastive_loss(z, positives, torch.tensor([0, 1, 3]), similarity=similarity)
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert z.grad is not None
    assert z.grad.abs().max() < 10  # 1 / temperature at most, not 1 / epsilon


@similarities
def test_duplicates(similarity: Similarity) -> None:
    z = torch.ones(5, 3, requires_grad=True)
    positives = torch.tensor([[1, 1, 0]] * 5)  # node 0 and node 1 are their own positives too
    loss = contrastive_loss(z, positives, torch.tensor([2, 2, 2, 1]), similarity=similarity)
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_unit_rows() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, -1e-14]])
    expected = torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]])
    torch.testing.assert_close(normalize(rows), expected)


def test_unit_rows_gradient() -> None:
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.autograd.gradcheck(normalize, (rows.requires_grad_(),))


def test_a_row_of_zeros_has_the_gradient_of_the_row_itself() -> None:
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    sent = torch.tensor([[5.0, -7.0], [0.0, 25.0]])
    torch.autograd.backward(normalize(rows), sent)
    # (g - y (y . g)) / |x| with y = (0.6, 0.8), y . g = 20 and |x| = 5
    torch.testing.assert_close(rows.grad, torch.tensor([[5.0, -7.0], [-2.4, 1.8]]))


@pytest.mark.parametrize("places", [1, FEW_POSITIVES, FEW_POSITIVES + 1])
def test_gradient_of_products_with_rows_of_their_own(places: int) -> None:
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(6, 3, generator=draw, dtype=torch.float64).requires_grad_()
    positives = torch.randint(-1, 6, (6, places), generator=draw)
    own = torch.randint(6, (6, places), generator=draw)
    assert torch.autograd.gradcheck(lambda z: contrastive_loss(z, positives, own), (z,))


def test_products_under_autocast_have_a_gradient() -> None:
    z = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    own = torch.randint(6, (6, FEW_POSITIVES + 1), generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", torch.bfloat16):
        loss = contrastive_loss(z, own, own)
    torch.autograd.backward(loss)
    assert z.grad is not None
    assert z.grad.isfinite().all()


# The loss in a loop of one's own: as a module, with one positive an anchor, and misused.


@variants
@similarities
def test_the_module_is_the_function(
    shared: bool, subset: bool, weighted: bool, similarity: Similarity
) -> None:
    case = Case(5, shared=shared, subset=subset, weighted=weighted)
    module = ContrastiveLoss(similarity, temperature=0.7)
    loss = module(case.z, case.positives, case.negatives, **case.chosen)
    assert loss.item() == pytest.approx(case.expected(similarity, 0.7), rel=1e-10)
    assert not list(module.parameters())


def test_the_module_says_its_settings() -> None:
    assert repr(ContrastiveLoss()) == "ContrastiveLoss(similarity='cosine', temperature=0.5)"
    with pytest.raises(UsageError, match=r"similarity='euclid' must be 'cosine' or 'inner'\."):
        ContrastiveLoss("euclid")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"temperature=0 must be above 0\."):
        ContrastiveLoss(temperature=0)


def test_pairs_are_anchors_with_one_positive_each() -> None:
    z = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, v, negatives = torch.tensor([0, 4, 2]), torch.tensor([1, -1, 5]), torch.tensor([3, 5])
    weights = torch.tensor([1.0, 1.0, 0.0]).double()
    pairs = contrastive_loss(z, v, negatives, anchors=u, weights=weights)
    rows = contrastive_loss(z, v[:, None], negatives, anchors=u, weights=weights[:, None])
    assert pairs.item() == rows.item() > 0


def check_is_refused(change: dict[str, Any], sentence: str) -> None:
    """A sound call is refused with the sentence once `change` is made to it."""
    given: dict[str, Any] = {
        "z": torch.ones(4, 3),
        "positives": torch.zeros(4, 2, dtype=torch.int64),
        "negatives": torch.tensor([0, 1]),
    }
    contrastive_loss(**given)
    with pytest.raises(UsageError, match=sentence):
        contrastive_loss(**(given | change))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"z": torch.ones(4)}, r"z has shape \(4,\); pass one embedding a row, \[V, h\]\."),
        (
            {"positives": torch.zeros(3, 2, dtype=torch.int64)},
            r"positives has shape \(3, 2\); pass a row for each of the 4 anchors, or name the anch",
        ),
        (
            {"negatives": torch.zeros(3, 2, dtype=torch.int64)},
            r"negatives has shape \(3, 2\); pass one list \[K\] .* each of the 4 anchors\.",
        ),
        ({"weights": torch.ones(4)}, r"weights has shape \(4,\); pass one weight for each"),
    ],
)
def test_shapes_that_do_not_fit_are_named(change: dict[str, Tensor], sentence: str) -> None:
    check_is_refused(change, sentence)


@pytest.mark.parametrize("name", ["dot", "Cosine", None])
def test_an_unknown_similarity_is_refused(name: Any) -> None:
    z, nodes = torch.ones(4, 3), torch.tensor([0, 1, 2, 3])
    with pytest.raises(UsageError, match=rf"similarity='{name}' must be 'cosine' or 'inner'\."):
        contrastive_loss(z, nodes, nodes, similarity=name)


@pytest.mark.parametrize("value", [0, -1, math.nan, "a", True])
def test_a_temperature_that_cannot_divide_is_refused(value: Any) -> None:
    z, nodes = torch.ones(4, 3), torch.tensor([0, 1, 2, 3])
    with pytest.raises(UsageError, match=rf"temperature={value} must be above 0\."):
        contrastive_loss(z, nodes, nodes, temperature=value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"z": [[1.0]] * 4}, r"z is a list; pass a tensor, such as torch\.as_tensor"),
        ({"z": torch.ones(4, 3, dtype=torch.int64)}, r"z has the type torch\.int64; pass floats"),
        ({"positives": np.zeros((4, 2), int)}, r"positives is a ndarray; pass a tensor"),
        ({"positives": torch.ones(4, 2, dtype=torch.bool)}, r"type torch\.bool; pass node numbers"),
        ({"positives": torch.full((4, 2), -2)}, r"positives has -2; .* 0 to 3, or -1 for an empty"),
        ({"positives": torch.full((4, 2), 4)}, r"positives has 4; pass node numbers from 0 to 3,"),
        ({"negatives": [0, 1]}, r"negatives is a list; pass a tensor"),
        ({"negatives": None}, r"negatives is a NoneType; pass a tensor"),
        ({"negatives": torch.tensor([0.0])}, r"negatives has the type torch\.float32; pass node"),
        ({"negatives": torch.tensor([0, -1])}, r"negatives has -1; pass node .* from 0 to 3\."),
        ({"anchors": torch.tensor([0, 1, 2, 9])}, r"anchors has 9; pass node numbers from 0 to 3"),
        ({"weights": torch.full((4, 2), math.nan)}, r"weights must be finite numbers, none of"),
        ({"weights": torch.full((4, 2), -1.0)}, r"weights must be finite numbers, none of"),
        ({"weights": [[1.0, 1.0]] * 4}, r"weights is a list; pass a tensor"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(change: dict[str, Any], sentence: str) -> None:
    check_is_refused(change, sentence)


def test_training_reads_no_value_of_its_lists() -> None:
    meta = torch.device("meta")  # a tensor without values, as one that a GPU has yet to compute
    nodes = torch.zeros(4, 2, dtype=torch.int64, device=meta)
    given = torch.ones(4, 3, device=meta), nodes, nodes[:, 0]
    assert contrastive_loss(*given, weights=torch.ones(4, 2, device=meta)).shape == ()
