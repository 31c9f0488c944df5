"""XTCL keeps scikit-learn's promises: what is given stays, what is learned ends in `_`."""

from __future__ import annotations

import inspect
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.utils.validation import check_is_fitted
from small_runs import early_stopping_recipe, small_graph, small_model, small_split
from torch import Tensor, nn

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig
from xtcl.errors import BudgetError, NotFittedError
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.prepare import FitSettings
from xtcl.progress import Progress
from xtcl.relations import row_source as searched_lists
from xtcl.relations import topk_rows as pairs
from xtcl.relations.pagerank import PageRank
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import SimilarityRows
from xtcl.relations.store.relation_store import RelationStore
from xtcl.tasks import make_task
from xtcl.tasks.custom import CustomTask
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.training_data import training_data

pytestmark = pytest.mark.slow


GIVEN: dict[str, Any] = {
    "task": "links",
    "encoder": "gat",
    "relations": ["link", PageRank(alpha=0.8)],
    "sampler": "paper",
    "recipe": FitConfig(positives=9),
    "metric": "macro_f1",
    "crossfit": 3,
    "quantiles": [0.9, 0.99],
    "positives": 7,
    "negatives": 11,
    "temperature": 0.3,
    "similarity": "inner",
    "epochs": 4,
    "learning_rate": 0.01,
    "width": 16,
    "cap": 12,
    "index_past": 1000,
    "encoder_options": {"layers": 2},
    "use_labels": True,
    "device": "cpu",
    "memory": "8GB",
    "store": "relations",
    "random_state": 5,
    "progress": Progress(),
    "verbose": True,
}
Result = dict[str, NDArray[Any]]


def result_of(model: XTCL) -> Result:
    weights = [
        [w.order, w.precision, w.support, w.w0, w.w1, w.importance] for w in model.relation_weights_
    ]
    return {
        "embedding": model.embedding_,
        "positives": model.positives_,
        "weights": np.array(weights),
        "losses": np.concatenate(model.loss_curves_),
        "head": np.concatenate([v.ravel() for v in model.head_.to_tensors().values()]),
    }


def assert_same(one: Result, other: Result) -> None:
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name, strict=True)


def test_init_takes_every_parameter_and_only_stores_it() -> None:
    assert set(inspect.signature(XTCL).parameters) == set(GIVEN)
    model = XTCL(**GIVEN)
    stored = model.get_params(deep=False)
    assert set(stored) == set(GIVEN)
    assert all(stored[name] is GIVEN[name] for name in GIVEN)
    assert set(vars(model)) == set(GIVEN)


def test_init_does_not_judge() -> None:
    XTCL(task="rubbish", encoder="rubbish", device="rubbish", memory="rubbish", random_state=-1)


def test_clone_and_set_params() -> None:
    copy = clone(XTCL(**GIVEN))
    for name in GIVEN.keys() - {"progress", "relations", "quantiles"}:
        assert copy.get_params()[name] == GIVEN[name]
    assert copy.relations == GIVEN["relations"]
    assert copy.set_params(width=32, epochs=2) is copy
    assert (copy.width, copy.epochs) == (32, 2)
    with pytest.raises(ValueError, match="Invalid parameter 'breadth'"):
        copy.set_params(breadth=3)


def test_clone_of_a_fitted_model_is_not_fitted() -> None:
    graph = small_graph()
    fitted = small_model().fit(graph, small_split(graph, "nodes"))
    check_is_fitted(fitted)
    with pytest.raises(SklearnNotFitted):
        check_is_fitted(clone(fitted))


def test_repr_shows_what_was_changed() -> None:
    text = repr(XTCL("links", width=64))
    assert text.startswith("XTCL(")
    assert "task='links'" in text
    assert "width=64" in text
    assert "epochs" not in text


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.predict(),
        lambda m: m.predict_proba([0]),
        lambda m: m.decision_function([[0], [1]]),
        lambda m: m.set_params(task="links").decision_function([[0], [1]]),
        lambda m: m.predictions_.probabilities,
        lambda m: m.score(None),
        lambda m: m.test_metrics(None),
        lambda m: m.explain(0, 1),
        lambda m: m.save("never-written"),
    ],
)
def test_asking_before_fit_names_fit(ask: Any) -> None:
    with pytest.raises(NotFittedError, match=r"not fitted yet; call fit\(graph, split\) first"):
        ask(XTCL())


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_fit_returns_self_learns_underscored_names_and_keeps_parameters(task: str) -> None:
    graph = small_graph()
    model = small_model(task, memory="8GB", quantiles=[0.9], relations=["link", "pagerank"])
    before = dict(model.get_params(deep=False))
    assert model.fit(graph, small_split(graph, task)) is model
    after = model.get_params(deep=False)
    assert all(after[name] is before[name] for name in before)
    learned = set(vars(model)) - set(before)
    assert all(name.endswith("_") or name.startswith("_") for name in learned)
    assert {
        "embedding_",
        "relation_weights_",
        "positives_",
        "loss_curves_",
        "plan_",
        "head_",
        "encoder_",
        "sampler_",
        "classes_",
        "recipe_",
    } <= learned
    beside = 3 * graph.num_attributes if model.plan_.attributes else 0
    widths = 8 * len(model.plan_.encoders) + beside
    assert model.embedding_.shape == (graph.num_nodes, widths)
    assert model.embedding_.dtype == np.float32
    assert model.positives_.shape == (graph.num_nodes, model.recipe_.positives)
    assert model.positives_.dtype == np.int64
    assert [len(curve) for curve in model.loss_curves_] == [12] * len(model.plan_.encoders)
    assert [w.order for w in model.relation_weights_] == [1, 2]


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_fit_does_not_change_what_it_is_given(task: str) -> None:
    graph = small_graph()
    split = small_split(graph, task)
    assert graph.labels is not None
    fingerprints = graph.fingerprint(), split.fingerprint(), graph.labels.tobytes()
    small_model(task).fit(graph, split)
    assert fingerprints == (graph.fingerprint(), split.fingerprint(), graph.labels.tobytes())


@pytest.mark.parametrize(("task", "encoder"), [("nodes", "gat"), ("links", "gcn")])
def test_fit_twice_equals_fit_once_and_a_clone(task: str, encoder: str) -> None:
    graph, other = small_graph(), small_graph(60, seed=3)
    split = small_split(graph, task)
    model = small_model(task, encoder, random_state=4)
    once = result_of(model.fit(graph, split))
    assert_same(once, result_of(model.fit(graph, split)))
    model.fit(other, small_split(other, task))
    assert_same(once, result_of(model.fit(graph, split)))
    assert_same(once, result_of(clone(model).fit(graph, split)))


def test_another_seed_gives_another_result() -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    first, second = (small_model(random_state=seed).fit(graph, split) for seed in (0, 1))
    assert not np.array_equal(first.embedding_, second.embedding_)


def test_a_numpy_seed_is_a_seed() -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    plain = small_model(random_state=3).fit(graph, split)
    numpy = small_model(random_state=np.int64(3)).fit(graph, split)
    assert_same(result_of(plain), result_of(numpy))


@pytest.mark.parametrize(("task", "encoder"), [("nodes", "gcn"), ("links", "gat")])
def test_global_random_states_neither_change_nor_matter(task: str, encoder: str) -> None:
    graph = small_graph()
    split = small_split(graph, task)
    results = []
    with torch.random.fork_rng(devices=[]):
        kept = random.getstate(), np.random.get_state()  # noqa: NPY002
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            before = _global_states()
            results.append(result_of(small_model(task, encoder).fit(graph, split)))
            assert _global_states() == before
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
    assert_same(*results)


def _global_states() -> tuple[object, ...]:
    legacy: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), legacy[1].tobytes(), legacy[2:], torch.get_rng_state().tolist()


def _smallest_budget(model: XTCL, graph: Graph, split: Any) -> int:
    low, high = 0, 2**34
    while high - low > 1:
        middle = (low + high) // 2
        try:
            plan = model.set_params(memory=middle).memory_plan(graph, split)
        except BudgetError:
            low = middle
        else:
            low, high = (middle, high) if plan.mini_batches else (low, middle)
    return high


@pytest.mark.parametrize("cap", [None, 6])
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_store_gives_the_same_result(task: str, cap: int | None, tmp_path: Path) -> None:
    graph = small_graph()
    split = small_split(graph, task)
    plain = result_of(small_model(task, cap=cap).fit(graph, split))
    for store in (tmp_path / "s", str(tmp_path / "s"), RelationStore(tmp_path / "s", limit=10**9)):
        assert_same(plain, result_of(small_model(task, cap=cap, store=store).fit(graph, split)))


@pytest.mark.parametrize("cap", [None, 6])
def test_a_second_fit_with_another_encoder_computes_no_relation(
    cap: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    first = small_model(cap=cap, store=tmp_path).fit(graph, split)
    computed = set()
    original = SimilarityRows.__call__

    def noted(rows: SimilarityRows, nodes: Tensor) -> Tensor:
        computed.add(rows.name)
        return original(rows, nodes)

    monkeypatch.setattr(SimilarityRows, "__call__", noted)
    monkeypatch.setattr(pairs, "topk_search", None)  # nothing is searched for either
    monkeypatch.setattr(searched_lists, "topk_search", None)
    second = small_model(encoder="gat", cap=cap, store=tmp_path).fit(graph, split)
    assert computed == set()
    np.testing.assert_array_equal(first.positives_, second.positives_)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_any_memory_gives_the_same_result(task: str) -> None:
    graph = small_graph(150)
    split = small_split(graph, task)
    few = {"negatives": 4}  # so that the blocks need the most
    least = _smallest_budget(small_model(task, **few), graph, split)
    plan = small_model(task, memory=least, **few).memory_plan(graph, split)
    assert plan.block_rows == 64  # so that 150 nodes come in three blocks
    free = result_of(small_model(task, **few).fit(graph, split))
    for memory in (least, least + 5_000, "64GB"):
        assert_same(free, result_of(small_model(task, memory=memory, **few).fit(graph, split)))


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_any_block_size_gives_the_same_result(task: str) -> None:
    graph = small_graph()
    side = training_data(graph, small_split(graph, task))
    recipe = small_model(task).resolved_recipe()
    found = [
        fit_task(side, make_task(task), recipe, FitOptions(block_rows=rows)).fitted
        for rows in (None, 9, 64)
    ]
    for other in found[1:]:
        assert other.sampler.relation_weights_ == found[0].sampler.relation_weights_
        np.testing.assert_array_equal(other.positives, found[0].positives)
        np.testing.assert_array_equal(other.embedding, found[0].embedding)


def members_of(recipe: FitConfig) -> list[EncoderConfig]:
    return [member for plan in recipe.ensembles for member in plan.encoders]


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("own", [True, False])
def test_every_parameter_reaches_every_member_of_the_recipe(
    task: str, encoder: str, own: bool
) -> None:
    two = EnsembleConfig((EncoderConfig({"hops": 3}), EncoderConfig({"hops": 4}, weight=0.5)), 0.4)
    usual = (
        FitConfig(ensembles=(two, EnsembleConfig()), stop_early=True, hidden_parts=2)
        if own
        else make_task(task).recipe(encoder)
    )
    given = GIVEN | {"task": task, "encoder": encoder, "sampler": "xtcl", "encoder_options": None}
    has_metric = own and task == "nodes"  # hidden labels choose for nodes alone
    given |= {"recipe": usual if own else None} | ({} if has_metric else {"metric": None})
    recipe = XTCL(**given).resolved_recipe()
    assert recipe.metric == ("macro_f1" if has_metric else "accuracy")
    assert recipe.crossfit == 3
    assert recipe.positives == 7
    assert recipe.sampler.quantiles == (0.9, 0.99)
    assert (recipe.sampler.cap, recipe.sampler.index_past) == (12, 1000)
    assert recipe.stop_early is False  # epochs were given
    for member in members_of(recipe):
        assert member.encoder["width"] == 16
        training = member.training
        assert (training.negatives, training.temperature, training.similarity) == (11, 0.3, "inner")
        assert (training.epochs, training.learning_rate) == (4, 0.01)
    # What was not given stays, and the recipe that was given stays as it was.
    assert [p.attributes for p in recipe.ensembles] == [p.attributes for p in usual.ensembles]
    for member, before in zip(members_of(recipe), members_of(usual), strict=True):
        assert member.encoder == before.encoder | {"width": 16}
        assert member.weight == before.weight
        assert member.training.weight_decay == before.training.weight_decay
    assert XTCL(task, encoder, recipe=usual).resolved_recipe() == usual


def test_single_settings_go_with_encoder_options() -> None:
    without = {"sampler": "xtcl", "recipe": None, "metric": None}
    recipe = XTCL(**(GIVEN | without)).resolved_recipe()
    ((member,),) = (plan.encoders for plan in recipe.ensembles)
    assert member.encoder == {"layers": 2, "width": 16}
    assert member.training.epochs == 4
    assert member.training.link_dropout == (
        make_task("links").recipe("gat").ensembles[0].encoders[0].training.link_dropout
    )


def test_the_paper_s_sampler_is_the_paper_to_the_letter() -> None:
    recipe = XTCL(sampler="paper").resolved_recipe()
    assert recipe == make_task("nodes").recipe("gcn").as_in_paper("gcn")
    assert recipe.crossfit == 0
    assert recipe.sampler.base_score == 0.0
    assert recipe.sampler.sweeps == 1
    assert recipe.sampler.tie_break is None
    assert FitSettings.of(XTCL(sampler="paper")).relations == resolve_relations(
        "paper", printed=True
    )
    assert FitSettings.of(XTCL()).relations == resolve_relations("paper")
    ((member,),) = (plan.encoders for plan in recipe.ensembles)
    assert (member.training.similarity, member.training.temperature) == ("inner", 1.0)
    assert recipe.ensembles[0].attributes == 0.0
    assert XTCL(sampler="paper", crossfit=4).resolved_recipe().crossfit == 4


def test_without_epochs_nodes_train_as_long_as_the_recipe_says() -> None:
    graph = small_graph()
    model = small_model(epochs=None).fit(graph, small_split(graph, "nodes"))
    expected = [m.training.epochs for m in members_of(make_task("nodes").recipe("gcn"))]
    assert [len(curve) for curve in model.loss_curves_] == expected


def test_without_epochs_hidden_links_say_how_long_links_train() -> None:
    graph = small_graph()
    model = XTCL("links", recipe=early_stopping_recipe("gcn", 23), device="cpu")
    model.fit(graph, small_split(graph, "links"))
    assert model.recipe_.stop_early
    assert {member.training.epochs for member in members_of(model.recipe_)} == {23}
    (epochs,) = (member.training.epochs for member in model.plan_.encoders)
    assert [len(curve) for curve in model.loss_curves_] == [epochs]
    assert 0 < epochs < 23  # embeddings are scored every few epochs


def test_progress_hears_of_every_stage() -> None:
    from small_runs import COUNTING, FINDING, TRAINING, Recorder

    graph = small_graph()
    heard = Recorder()
    model = small_model("links", progress=heard).fit(graph, small_split(graph, "links"))
    tried = [TRAINING] * len(model.recipe_.ensembles)
    assert heard.names == [COUNTING, FINDING, *tried, COUNTING, FINDING, TRAINING]
    assert all(sum(done) == steps for _, steps, done in heard.stages)


def test_an_own_module_and_an_own_task_can_be_parameters() -> None:
    task = CustomTask(lambda u, v: u[:, None] == v, np.arange(4))
    model = XTCL(task, nn.Identity())
    assert model.get_params()["task"] is task
    copy = clone(model)
    assert isinstance(copy.task, CustomTask)
    assert isinstance(copy.encoder, nn.Identity)
    assert "XTCL(" in repr(model)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_score_is_the_task_s_metric_on_the_test_side(task: str) -> None:
    graph = small_graph()
    split = small_split(graph, task)
    model = small_model(task).fit(graph, split)
    metrics = model.test_metrics(split)
    assert model.score(split) == metrics["auc" if task == "links" else "accuracy"]
    if isinstance(split, NodeSplit):
        assert graph.labels is not None
        right = model.predict(split.test) == graph.label_values(graph.labels[split.test])
        assert model.score(split) == pytest.approx(right.mean())
    if isinstance(split, LinkSplit):
        links, others = map(model.decision_function, (split.test, split.test_negatives))
        above = np.sign(links[:, None] - others)
        assert model.score(split) == pytest.approx((above + 1).mean() / 2)
