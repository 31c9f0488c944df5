"""lab/scripts/ablation.py: its rows, the files it writes, and the tables drawn from them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import narrow, python, shrink_recipes, small_graph, small_split

from xtcl.code_digest import source_digest
from xtcl.config import FIXED_RULES, FitConfig, Similarity
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit
from xtcl.lab.experiments.provenance import provenance
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts import ablation, ablation_fits, study
from xtcl.lab.scripts.ablation import ablation_page
from xtcl.lab.scripts.ablation_fits import (
    DebiasedLoss,
    PosteriorAgreement,
    ScoreWeightedLoss,
    all_chances,
    fit_again,
    fit_debiased,
    fit_weighted,
    held_out_posteriors,
)
from xtcl.lab.scripts.ablation_rows import DEFAULT, ENCODER, ROWS, Row
from xtcl.lab.scripts.study import current_conditions
from xtcl.model_selection.evaluation import make_split
from xtcl.nn.loss import Loss, contrastive_loss
from xtcl.progress import Progress
from xtcl.relations.view import TrainingView
from xtcl.sampling.positives import Positives
from xtcl.tasks import make_task
from xtcl.tasks.fit import FittedTask, fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.sampled_positives import fit_sampler
from xtcl.tasks.training_data import TrainingData, training_data

RESULTS = Path(__file__).parents[3] / "results" / "ablation"
CPU = torch.device("cpu")


ALL = [(task, row) for task, rows in ROWS.items() for row in rows]


def default(task: str) -> FitConfig:
    return make_task(task).named_recipe(FIXED_RULES, ENCODER)


@pytest.fixture
def one_small_cora(monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph = replace(small_graph(), name="cora")
    monkeypatch.setattr(ablation, "load_dataset", lambda name, data: graph)
    shrink_recipes(monkeypatch, 2)
    return graph


def run(out: Path, *options: str) -> int:
    return ablation.main(["--datasets", "cora", "--device", "cpu", "--out", str(out), *options])


@pytest.mark.slow
@pytest.mark.parametrize(("task", "row"), ALL, ids=lambda item: getattr(item, "name", item))
def test_every_row_changes_something_that_can_be_run(task: str, row: Row) -> None:
    recipe = row.change(default(task)).validated()
    changed = recipe != default(task) or row.fit is not DEFAULT.fit
    assert changed == (row is not DEFAULT)


@pytest.mark.slow
def test_no_row_twice() -> None:
    for task, rows in ROWS.items():
        recipes = [(row.change(default(task)), row.fit) for row in rows]
        assert all(recipes.count(recipe) == 1 for recipe in recipes)
        assert len({row.name for row in rows}) == len({row.title for row in rows}) == len(rows)


@pytest.mark.slow
def test_changes_reach_the_member_they_name() -> None:
    rows = {row.name: row.change(default("nodes")).ensembles[0] for row in ROWS["nodes"]}
    plan = default("nodes").ensembles[0]
    linear, deep = plan.encoders
    assert rows["linear-only"].encoders == (linear,)
    assert rows["deep-only"].encoders == (deep,)
    assert rows["one-hop"].encoders[0].encoder == linear.encoder | {"hops": 1, "restart": 0.0}
    assert rows["one-hop"].encoders[1] == deep
    assert rows["long"].encoders[1].training.epochs == 4 * deep.training.epochs
    assert [m.encoder["width"] for m in rows["width-256"].encoders] == [256, 256]
    three = rows["three-seeds"].encoders
    assert three[3] == deep
    assert sum(m.weight**2 for m in three[:3]) == pytest.approx(linear.weight**2)


@pytest.mark.slow
def test_the_code_of_the_scripts_is_a_condition() -> None:
    found = current_conditions(CPU)
    assert found["versions"].pop("scripts") == source_digest(
        Path(study.__file__).parent.glob("*.py")
    )
    assert found == provenance(CPU)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_all_rows_on_splits_of_exploration(
    one_small_cora: Graph, tmp_path: Path, task: str
) -> None:
    assert run(tmp_path, "--task", task, "--splits", "1") == 0
    for row in ROWS[task]:
        record = RecordFile(tmp_path / "ablation.jsonl").read()[f"cora-{task}-{row.name}"]
        assert record["seeds"] == [1000]
        assert record["method"] == row.name
        assert record["fit"] == row.fit.__name__
        assert {k: record[k] for k in ("versions", "hardware")} == current_conditions(CPU)
        shares = RecordFile(tmp_path / "purity.jsonl").read()[f"cora-{task}-{row.name}"]
        assert list(shares) == ["1000"]


@pytest.mark.slow
def test_a_row_goes_on_and_keeps_its_purity(
    one_small_cora: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = one_small_cora
    assert run(tmp_path, "--task", "nodes", "--only", "positives-5", "--splits", "1") == 0
    assert run(tmp_path, "--task", "nodes", "--only", "positives-5", "--splits", "2") == 0
    cell = "cora-nodes-positives-5"
    reported = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert reported == [f"{cell} split 1000", f"{cell} split 1001"]
    shares = RecordFile(tmp_path / "purity.jsonl").read()[cell]

    (row,) = (row for row in ROWS["nodes"] if row.name == "positives-5")
    method = ablation.method_of(row)
    split = make_split(graph, "nodes", 1001)
    assert isinstance(split, NodeSplit)
    side = training_data(graph, split)
    method.fit(side, "nodes", seed=1001, device=CPU, progress=Progress())
    assert method.positives.shape == (graph.num_nodes, 5)
    assert graph.labels is not None
    right = [
        graph.labels[u] == graph.labels[v]
        for u in split.test
        for v in method.positives[u]
        if v >= 0
    ]
    assert shares["1001"] == pytest.approx(100 * np.mean(right), abs=0.01)


@pytest.mark.slow
def test_a_refused_row_does_not_stop_the_others(
    one_small_cora: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = RecordFile(tmp_path / "ablation.jsonl")
    file.append("cora-nodes-default", {"dataset": "other"})
    assert run(tmp_path, "--task", "nodes", "--only", "default,positives-5", "--splits", "1") == 1
    assert "were run with another 'dataset'" in capsys.readouterr().err
    assert file.read()["cora-nodes-default"] == {"dataset": "other"}
    assert file.read()["cora-nodes-positives-5"]["seeds"] == [1000]


def record(row: str, figures: list[float]) -> dict[str, object]:
    error = float(np.std(figures, ddof=1) / len(figures) ** 0.5) if len(figures) > 1 else 0.0
    return {
        "method": row,
        "mean": float(np.mean(figures)),
        "stderr": error,
        "runs": figures,
        "seeds": list(range(1000, 1000 + len(figures))),
        "seconds": [2.0] * len(figures),
    }


@pytest.mark.slow
def test_the_table_has_differences_paired_by_split(tmp_path: Path) -> None:
    for row, figures in {"default": [80.0, 84.0, 82.0], "long": [79.0, 82.0]}.items():
        RecordFile(tmp_path / "ablation.jsonl").append(f"cora-nodes-{row}", record(row, figures))
    shares = {"1000": 70.0, "1001": 71.0}
    RecordFile(tmp_path / "purity.jsonl").append("cora-nodes-long", shares)
    assert run(tmp_path, "--table") == 0
    text = (tmp_path / "tables.md").read_text()
    assert text == ablation_page(tmp_path)
    assert "| the default recipe | 82.00 ± 1.15 | – | 3 | 2.0 | – |" in text  # noqa: RUF001
    assert "| four times the epochs | 80.50 ± 1.50 | -1.50 ± 0.50 | 2 | 2.0 | 70.5 |" in text
    assert "| width 256 | – | – | – | – | – |" in text  # noqa: RUF001
    assert "citeseer" not in text
    assert "## cora, links" not in text


def test_a_row_of_an_older_reading_of_the_paper_is_marked(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "ablation.jsonl")
    for dataset, settings in {"cora": {}, "citeseer": {"printed_relations": True}}.items():
        config = {"sampler": {"sweeps": 1, **settings}}
        for row in ("default", "literal"):
            file.append(f"{dataset}-nodes-{row}", record(row, [80.0]) | {"config": config})
    cora, citeseer = ablation_page(tmp_path).split("## ")[1:]
    assert r"| the paper as printed \* | 80.00 |" in cora
    assert "| the paper as printed | 80.00 |" in citeseer
    assert "| the default recipe | 80.00 |" in cora


def test_the_page_of_the_results_is_what_the_script_prints() -> None:
    page = (RESULTS / "tables.md").read_text(encoding="utf-8")
    assert page == ablation_page(RESULTS)
    assert r"\* An older reading of the printed text" in page
    assert page.count(r"| the paper as printed \* |") == 10


@pytest.mark.slow
def test_the_command_draws_the_page(tmp_path: Path) -> None:
    shutil.copy(RESULTS / "ablation.jsonl", tmp_path)
    ran = python("-m", "xtcl.lab.scripts.ablation", "--table", "--out", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "tables.md").read_text(encoding="utf-8") == ablation_page(tmp_path)


# What the ablation adds to the package, against plain loops.

GRAPH = small_graph()


SIDE = training_data(GRAPH, small_split(GRAPH, "nodes"))


TASK = NodeClassification()


# Without doubt: it would take back what was learned, and with it what is compared here.
USUAL = narrow(TASK.named_recipe(FIXED_RULES, "gcn"), epochs=4)
RECIPE = replace(USUAL, positives=6, downweight=1.0)


OPTIONS = FitOptions(seed=3)


NODES = 12


def a_step() -> tuple[torch.Tensor, np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings, and for four anchors three positives each, some places empty; eight negatives."""
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(NODES, 5)))
    anchors = np.array([7, 0, 3, 5])
    positives = np.array([[1, 2, -1], [4, 4, 6], [-1, -1, -1], [0, -1, 2]])
    negatives = np.array([7, 9, 0, 1, 11, 3, 3, 8])  # some anchors are their own negatives
    return z, anchors, positives, negatives


def plain_loss(
    chance_of_positive: np.ndarray, chance_of_negative: np.ndarray, similarity: str, tau: float
) -> float:
    """Positives weighted by one table [V, V], negatives by one minus the other, in loops."""
    z, anchors, positives, negatives = a_step()
    rows = [row / np.linalg.norm(row) if similarity == "cosine" else row for row in z.numpy()]
    losses = []
    for u, own in zip(anchors, positives, strict=True):
        push = sum(
            (1 - chance_of_negative[u, n]) * np.exp(rows[u] @ rows[n] / tau)
            for n in negatives
            if n != u
        )
        weights, terms = [], []
        for v in own:
            if v >= 0:
                pull = np.exp(rows[u] @ rows[v] / tau)
                weights.append(chance_of_positive[u, v])
                terms.append(-np.log(pull / (pull + push)))
        if weights:
            losses.append(np.average(terms, weights=weights))
    return float(np.mean(losses))


def value(loss: Loss, similarity: Similarity, temperature: float) -> float:
    z, anchors, positives, negatives = a_step()
    return loss(
        z,
        torch.from_numpy(positives),
        torch.from_numpy(negatives),
        anchors=torch.from_numpy(anchors),
        weights=torch.ones(positives.shape),
        similarity=similarity,
        temperature=temperature,
    ).item()


def chances(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.05, 0.95, size=(NODES, NODES))


HOW: list[tuple[Similarity, float]] = [("cosine", 0.5), ("cosine", 0.1), ("inner", 1.0)]


@pytest.mark.parametrize(("similarity", "temperature"), HOW)
def test_positives_count_by_their_chance(similarity: Similarity, temperature: float) -> None:
    sure = chances(1)
    lists = np.stack([np.random.default_rng(u).permutation(NODES) for u in range(NODES)])
    lists[5, list(lists[5]).index(9)] = -1  # a place that nobody fills
    scores = np.log(sure / (1 - sure))[np.arange(NODES)[:, None], lists]
    found = Positives(lists, np.where(lists < 0, -np.inf, scores).astype(np.float32))
    loss = ScoreWeightedLoss.of(found, torch.device("cpu"))
    expected = plain_loss(sure, np.zeros((NODES, NODES)), similarity, temperature)
    assert value(loss, similarity, temperature) == pytest.approx(expected, rel=1e-5)
    assert value(contrastive_loss, similarity, temperature) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("similarity", "temperature"), HOW)
def test_likely_matches_push_less(similarity: Similarity, temperature: float) -> None:
    alike = chances(2)
    table = torch.from_numpy(alike).float().fill_diagonal_(1.0)
    ones = np.ones((NODES, NODES))
    expected = plain_loss(ones, alike, similarity, temperature)
    assert value(DebiasedLoss(table), similarity, temperature) == pytest.approx(expected, rel=1e-5)
    unlike = DebiasedLoss(torch.eye(NODES))
    equation_1 = value(contrastive_loss, similarity, temperature)
    assert value(unlike, similarity, temperature) == pytest.approx(equation_1, rel=1e-6)
    assert equation_1 != pytest.approx(expected, rel=1e-3)


def test_gradient_of_the_debiased_loss_is_finite() -> None:
    z, anchors, positives, negatives = a_step()
    z.requires_grad_()
    loss = DebiasedLoss(torch.eye(NODES))(
        z,
        torch.from_numpy(positives),
        torch.from_numpy(negatives),
        anchors=torch.from_numpy(anchors),
        weights=torch.ones(positives.shape),
        similarity="cosine",
        temperature=0.5,
    )
    torch.autograd.backward(loss)
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()


@pytest.mark.slow
@pytest.mark.parametrize("quantiles", [(0.9,), (0.5, 0.9)])
def test_chances_of_all_pairs(quantiles: tuple[float, ...]) -> None:
    recipe = replace(RECIPE, sampler=replace(RECIPE.sampler, quantiles=quantiles))
    sampler = fit_sampler(SIDE.graph, TASK, recipe, OPTIONS)
    found = all_chances(sampler)
    assert found.shape == (GRAPH.num_nodes, GRAPH.num_nodes)
    assert (found.diagonal() == 1).all()
    for u in (0, 17, 79):
        expected = [sampler.probability(u, v) for v in range(GRAPH.num_nodes) if v != u]
        others = np.delete(found[u].numpy(), u)
        np.testing.assert_allclose(others, expected, rtol=1e-5)


def same_embedding(one: FittedTask, other: FittedTask) -> bool:
    return np.allclose(one.fitted.embedding, other.fitted.embedding, atol=1e-5)


def test_chances_that_are_all_alike_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = fit_task(SIDE, TASK, RECIPE, OPTIONS)
    assert not same_embedding(usual, fit_weighted(SIDE, TASK, RECIPE, OPTIONS))
    assert not same_embedding(usual, fit_debiased(SIDE, TASK, RECIPE, OPTIONS))

    original = ScoreWeightedLoss.of

    def evenly(found: Positives, device: torch.device) -> ScoreWeightedLoss:
        return original(replace(found, scores=np.where(found.filled, 0.5, -np.inf)), device)

    monkeypatch.setattr(ScoreWeightedLoss, "of", evenly)
    monkeypatch.setattr(ablation_fits, "all_chances", lambda _: torch.eye(GRAPH.num_nodes))
    for fit in (fit_weighted, fit_debiased):
        fitted = fit(SIDE, TASK, RECIPE, OPTIONS)
        assert same_embedding(usual, fitted)
        np.testing.assert_array_equal(fitted.fitted.positives, usual.fitted.positives)


def posterior_without(hidden: np.ndarray) -> np.ndarray:
    """What a fit says that has never heard of the labels of `hidden`."""
    labels = SIDE.labels.copy()
    labels[hidden] = -1
    side = TrainingData(GRAPH.with_labels(labels))
    answer = fit_task(side, TASK, RECIPE, OPTIONS).answer
    assert isinstance(answer, NodePredictions)
    return answer.probabilities


@pytest.mark.slow
def test_no_posterior_has_seen_the_label_it_is_judged_by() -> None:
    found = held_out_posteriors(SIDE, TASK, RECIPE, OPTIONS)
    view = TrainingView.of(SIDE.graph, SIDE.labelled)
    whole = found.pop(view.labels.tobytes())
    assert len(found) == RECIPE.crossfit
    expected = posterior_without(np.arange(0))
    met: list[int] = []
    for key, posterior in found.items():
        labels = np.frombuffer(key, dtype=np.int64)
        hidden = np.flatnonzero((labels < 0) & (SIDE.labels >= 0))
        np.testing.assert_array_equal(labels[labels >= 0], SIDE.labels[labels >= 0])
        np.testing.assert_array_equal(posterior, posterior_without(hidden))
        expected[hidden] = posterior[hidden]
        met += hidden.tolist()
    assert sorted(met) == SIDE.labelled.tolist()
    np.testing.assert_array_equal(whole, expected)


def test_agreement_is_the_cosine_of_posteriors() -> None:
    rng = np.random.default_rng(0)
    view = TrainingView.of(SIDE.graph, SIDE.labelled)
    posterior = rng.dirichlet(np.ones(3), size=GRAPH.num_nodes)
    relation = PosteriorAgreement({view.labels.tobytes(): posterior})
    rows = relation.on(view)(torch.tensor([4, 11])).numpy()
    for row, u in zip(rows, (4, 11), strict=True):
        for v in range(GRAPH.num_nodes):
            p, q = posterior[u], posterior[v]
            assert row[v] == pytest.approx(p @ q / np.sqrt((p @ p) * (q @ q)), abs=1e-6)
    with pytest.raises(UsageError, match="no first fit with the labels of this view"):
        relation.on(view.without_labels(SIDE.labelled[:1]))


def test_the_second_sampler_knows_one_relation_more() -> None:
    recipe = replace(RECIPE, min_probability=0.0)
    first, second = (fit(SIDE, TASK, recipe, OPTIONS).fitted for fit in (fit_task, fit_again))
    extra = {r.name for r in second.sampler.relations_} - {r.name for r in first.sampler.relations_}
    assert extra == {"posterior-agreement"}
    assert not np.array_equal(first.positives, second.positives)
