"""XTCL: the front door."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator
from torch import nn

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig
from xtcl.device import limit_gpu_memory, parse_memory, pick_device
from xtcl.errors import NotFittedError, UsageError
from xtcl.graph.convert import as_graph
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, full_split
from xtcl.nn import encoder_factory
from xtcl.planning.memory_plan import MemoryPlan, plan_fit
from xtcl.planning.sizes import Sizes
from xtcl.progress import Progress
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation
from xtcl.relations.store.relation_store import RelationStore
from xtcl.runs.run_folder import environment, held_out_labels
from xtcl.sampling.xgsampler import PairExplanation, RelationWeight
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.fit import FitOptions, FittedTask, fit_task
from xtcl.tasks.metrics import test_scores
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData, check_disjoint, training_data
from xtcl.training.checkpoint import NullCheckpoints, SharedCheckpoints

if TYPE_CHECKING:
    import pandas as pd

    from xtcl.inference.explain import NodeExplanation


class FrameAnswers:
    """Methods of `XTCL` that answer by node id; docs/answers.md shows them at work."""

    @property
    def _own(self) -> XTCL:
        return cast("XTCL", self)

    def predict_frame(self) -> pd.DataFrame:
        """For every node id the class, its chance, the label trained on, and all chances."""
        from xtcl.inference.predict import predictions

        return predictions(self._own).frame()

    def embedding_frame(self) -> pd.DataFrame:
        """For every node id its embedding, in the columns z0, z1, ..."""
        from xtcl.inference.tables import embedding_table, names_of

        self._own._fitted()
        names = names_of(self._own.training_data_.graph)
        return embedding_table(names, self._own.embedding_).frame()

    def likely_links(self, k: int = 5) -> pd.DataFrame:
        """The `k` likeliest missing links of every node, the best first."""
        from xtcl.inference.links import likely_links

        return likely_links(self._own, k).frame()

    def node_number(self, name: object) -> int:
        """The number of the node with the id `name`, as `predict` and `explain` want it."""
        from xtcl.inference.tables import node_number

        self._own._fitted()
        return node_number(self._own.training_data_.graph, name)

    def explain_node(self, u: int) -> NodeExplanation:
        """What is thought of node number `u`, its positives and why, and its neighbours."""
        from xtcl.inference.explain import explain_node

        return explain_node(self._own, u)

    def predict_new(self, nodes: Any, edges: Any = None) -> pd.DataFrame:
        """`predict_frame` of nodes that come after the fit: tables or frames as of `read_tables`.

        Nothing is fitted again, and the answers for the nodes of the fit stay what they are.
        """
        from xtcl.inference.predict import predict_new

        return predict_new(self._own, nodes, edges).frame()

    def embed_new(self, nodes: Any, edges: Any = None) -> pd.DataFrame:
        """`embedding_frame` of nodes that come after the fit."""
        from xtcl.inference.predict import embed_new
        from xtcl.inference.tables import embedding_table

        rows = embed_new(self._own, nodes, edges)
        return embedding_table(rows.names, rows.embedding).frame()


class XTCL(FrameAnswers, BaseEstimator):  # type: ignore[misc]
    """Task-aware node embeddings, with an account of which graph signals mattered.

    Parameters
    ----------
    task : "nodes", "links" or a Task
        What the embeddings are for. `CustomTask` takes an indicator function of your own.
    encoder : "gcn", "gat" or a module
        A module of your own takes `(x, edge_index)` and is copied, never changed.
    relations : "paper", or names and Relation objects
        The graph signals to choose from; "paper" are all nine.
    sampler : "xtcl" or "paper"
        "paper" is Algorithm 1 and Equation 1 as printed; see `FitConfig.literal`.
    recipe : FitConfig or None
        Every setting of the fit at once, as `xtcl tune` finds it; None is the task's own.
    crossfit, positives, negatives, width : int or None
        Single settings instead of the recipe's: folds, the paper's B, negatives of a step, columns
        of each encoder.
    quantiles : sequence of float or None
        From which share of a row on a node stands out, instead of the recipe's.
    temperature, learning_rate : float or None
        Of the training, instead of the recipe's.
    similarity : "cosine", "inner" or None
        Of embeddings in the loss, instead of the recipe's.
    epochs : int or None
        Instead of the recipe's. Training runs that long, also where hidden links would have ended
        it earlier.
    cap : int or None
        Top-k mode: of each node's above set for a relation only the `cap` best count, so that time
        and memory grow with V * cap and not with V * V. None is exact mode; see docs/top-k.md.
    index_past : int or None
        In top-k mode: where more nodes than this have different attributes, an index of FAISS
        searches for the best and finds most of them. None searches exactly, in V * V steps.
    encoder_options : dict or None
        One encoder with these options and nothing beside it, in place of those of the recipe:
        `{"layers": 2, "hops": 1}` is a two-layer GCN.
    use_labels : bool
        Let the label relations see the graph's labels in link prediction.
    device : "auto", "cpu", "cuda", ...
    memory : amount such as "4GB", or None
        Kept by working in smaller blocks, which changes no result, and where a training step over
        the whole graph has no room, in mini-batches; see `memory_plan` and docs/memory.md.
    store : folder, RelationStore or None
        Where above pairs and positives are kept for the next fit; the result does not change.
    random_state : int
        Seeds everything. Global random states are not touched.
    progress : Progress or None
        Where to report progress.

    Attributes
    ----------
    embedding_ : float32 array [V, width]; the recipe's encoders side by side
    relation_weights_ : tuple of RelationWeight, in training order
    positives_ : int64 array [V, B], -1 where a node has fewer
    loss_curves_ : for each encoder a tuple of float, one an epoch
    plan_ : the encoders and epochs that the fit settled on
    head_, encoder_, sampler_, classes_, recipe_ : the fitted parts
    environment_ : dict; the versions and the device of the fit

    Examples
    --------
    >>> from xtcl import XTCL, load_dataset, node_split
    >>> graph = load_dataset("cora")
    >>> split = node_split(graph, train=0.1, seed=0)
    >>> model = XTCL(task="nodes", encoder="gcn", random_state=0)
    >>> model.fit(graph, split).score(split) > 0.8  # doctest: +SKIP
    True

    """

    def __init__(
        self,
        task: str | Task = "nodes",
        encoder: str | nn.Module = "gcn",
        *,
        relations: str | Iterable[str | Relation] = "paper",
        sampler: str = "xtcl",
        recipe: FitConfig | None = None,
        crossfit: int | None = None,
        quantiles: Sequence[float] | None = None,
        positives: int | None = None,
        negatives: int | None = None,
        temperature: float | None = None,
        similarity: str | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        width: int | None = None,
        cap: int | None = None,
        index_past: int | None = None,
        encoder_options: dict[str, Any] | None = None,
        use_labels: bool = False,
        device: str = "auto",
        memory: str | int | None = None,
        store: str | PathLike[str] | RelationStore | None = None,
        random_state: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.task = task
        self.encoder = encoder
        self.relations = relations
        self.sampler = sampler
        self.recipe = recipe
        self.crossfit = crossfit
        self.quantiles = quantiles
        self.positives = positives
        self.negatives = negatives
        self.temperature = temperature
        self.similarity = similarity
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.width = width
        self.cap = cap
        self.index_past = index_past
        self.encoder_options = encoder_options
        self.use_labels = use_labels
        self.device = device
        self.memory = memory
        self.store = store
        self.random_state = random_state
        self.progress = progress

    def fit(
        self,
        graph: Any,
        split: NodeSplit | LinkSplit | None = None,
        *,
        checkpoints: NullCheckpoints | None = None,
    ) -> XTCL:
        """Fit on the training side of `split`; without one, on all labels or links there are.

        `graph` is a Graph, a PyG `Data` or a NetworkX graph (see `as_graph`).
        """
        recipe = self.resolved_recipe()
        graph = as_graph(graph)
        task = make_task(self.task)
        side = self._side(graph, task, split)
        plan = self._planned(side, task, recipe)
        budget = self._budget()
        options = FitOptions(
            encoder=self.encoder,
            relations=resolve_relations(self.relations),
            seed=int(self.random_state),
            device=pick_device(self.device),
            block_rows=plan.block_rows,
            keep_relations=plan.relations_kept,
            store=self._relation_store(),
            progress=self.progress or Progress(),
            checkpoints=SharedCheckpoints(checkpoints or NullCheckpoints()),
        )
        with limit_gpu_memory(budget, options.device):
            self._take(fit_task(side, task, plan.recipe, options), side)
        self.recipe_, self.graph_, self.split_ = plan.recipe, graph, split
        self.test_labels_ = held_out_labels(graph, split)
        self.environment_ = environment(options.device)
        return self

    def _take(self, result: FittedTask, side: TrainingData) -> None:
        """Set the fitted attributes."""
        self.fitted_task_ = result
        self.training_data_ = side
        self.embedding_ = result.fitted.embedding.cpu().numpy()
        self.positives_ = result.fitted.positives
        self.sampler_ = result.fitted.sampler
        self.encoder_ = result.fitted.encoder
        self.head_ = result.head
        self.loss_curves_ = result.fitted.losses
        self.plan_ = result.fitted.plan
        self.relation_weights_: tuple[RelationWeight, ...] = self.sampler_.relation_weights_
        self.classes_ = np.array(side.graph.classes, dtype=object)
        self.n_features_in_ = side.graph.num_attributes

    def predict(self, nodes_or_pairs: ArrayLike | None = None) -> np.ndarray:
        """Class of `nodes` (all when left out), or whether `pairs` [2, n] are links."""
        answer = self._fitted().answer
        if isinstance(answer, NodePredictions):
            codes = answer.predictions[self._nodes(nodes_or_pairs)]
            return self.training_data_.graph.label_values(codes)
        return np.asarray(self.predict_proba(nodes_or_pairs) >= 0.5)

    def predict_proba(self, nodes_or_pairs: ArrayLike | None = None) -> np.ndarray:
        """Class probabilities of `nodes` [n, C], or the chance of a link for `pairs` [2, n]."""
        answer = self._fitted().answer
        if isinstance(answer, NodePredictions):
            return np.asarray(answer.probabilities[self._nodes(nodes_or_pairs)])
        return np.asarray(expit(answer.score(self._pairs(nodes_or_pairs))))

    def decision_function(self, pairs: ArrayLike) -> np.ndarray:
        """Score of each pair [2, n]: the higher, the likelier a link."""
        answer = self._fitted().answer
        if not isinstance(answer, LinkScores):
            raise UsageError("decision_function is for task='links'; use predict_proba for nodes.")
        return answer.score(self._pairs(pairs))

    def score(self, split: NodeSplit | LinkSplit, graph: Any = None) -> float:
        """Accuracy or AUC on the test side of `split`; a loaded model needs the `graph` too."""
        return self.test_metrics(split, graph)[self.fitted_task_.task.metric]

    def test_metrics(self, split: NodeSplit | LinkSplit, graph: Any = None) -> dict[str, float]:
        """All metrics of the task on the test side of `split`, as fractions."""
        answer = self._fitted().answer
        known = as_graph(graph) if graph is not None else getattr(self, "graph_", None)
        if known is None and isinstance(answer, LinkScores):
            known = self.training_data_.graph  # links are scored by the split alone
        if known is None:
            raise UsageError("A loaded model has no test labels: call score(split, graph).")
        metrics = dict(test_scores(answer, known, split))
        check_disjoint(self.training_data_, split)
        return metrics

    def explain(self, u: int, v: int) -> PairExplanation:
        """Which relations speak for v as a positive of u, and how loudly."""
        self._fitted()
        return self.sampler_.explain(u, v)

    def resolved_recipe(self) -> FitConfig:
        """The task's recipe with the parameters given here put in; refuses what cannot be used."""
        task = make_task(self.task)
        encoder_factory(self.encoder, 1, {})  # an unknown name is refused before any work
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
            raise UsageError(f"random_state={seed} must be a whole number from 0 to 2**32 - 1.")
        if self.width is not None and self.width < 1:
            raise UsageError(f"width={self.width} must be at least 1.")
        name = self.encoder if isinstance(self.encoder, str) else "own"
        recipe = self.recipe or task.recipe(name)
        if self.sampler not in ("xtcl", "paper"):
            raise UsageError(f"sampler='{self.sampler}' must be 'xtcl' or 'paper'.")
        if self.sampler == "paper":
            recipe = recipe.literal(name)
        if self.encoder_options is not None:
            alone = EncoderConfig(dict(self.encoder_options), recipe.plans[0].members[0].training)
            recipe = replace(recipe, plans=(EnsembleConfig((alone,)),))
        if self.epochs is not None:
            recipe = replace(recipe, stop_early=False)
        chosen = self._given("cap", "index_past")
        if self.quantiles is not None:
            chosen["quantiles"] = tuple(self.quantiles)
        recipe = replace(recipe, sampler=replace(recipe.sampler, **chosen))
        settings = self._given("epochs", "learning_rate", "negatives", "temperature", "similarity")
        width = self._given("width")

        def changed(member: EncoderConfig) -> EncoderConfig:
            training = replace(member.training, **settings)
            return replace(member, encoder=member.encoder | width, training=training)

        return replace(recipe.each(changed), **self._given("crossfit", "positives")).checked()

    def save(self, folder: str | PathLike[str], **extra: Any) -> None:
        """Write a run directory; see `xtcl.runs.directory` for what is in it."""
        from xtcl.runs.run_folder import write_run

        self._fitted()
        write_run(self, folder, **({"split": getattr(self, "split_", None)} | extra))

    def report(self, path: str | PathLike[str]) -> None:
        """Write one self-contained HTML file about the fit; docs/report.md says how to read it.

        With a split it shows scores on the test side, too, also after `save` and `load`.
        """
        from xtcl.report.page import write_page

        self._fitted()
        write_page(self, path)

    @classmethod
    def load(cls, folder: str | PathLike[str], **parts: Any) -> XTCL:
        """Read a run directory. A module or task of your own is given as `encoder=` or `task=`."""
        from xtcl.runs.run_folder import read_run

        return read_run(cls, folder, **parts)

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _fitted(self) -> FittedTask:
        if not hasattr(self, "fitted_task_"):
            raise NotFittedError("This XTCL is not fitted yet; call fit(graph, split) first.")
        return self.fitted_task_

    def memory_plan(self, graph: Any, split: NodeSplit | LinkSplit | None = None) -> MemoryPlan:
        """What a fit would take, and how it would keep `memory`; refuses too little of it."""
        recipe, task = self.resolved_recipe(), make_task(self.task)
        return self._planned(self._side(as_graph(graph), task, split), task, recipe)

    def _planned(self, side: TrainingData, task: Task, recipe: FitConfig) -> MemoryPlan:
        work = Sizes.of(
            side,
            task.name,
            recipe,
            encoder=self.encoder,
            device=pick_device(self.device).type,
            store=self.store is not None,
        )
        return plan_fit(work, self._budget())

    def _budget(self) -> int | None:
        return None if self.memory is None else parse_memory(self.memory)

    def _relation_store(self) -> RelationStore | None:
        given = self.store
        if given is None or isinstance(given, RelationStore):
            return given
        return RelationStore(Path(given))

    def _nodes(self, nodes: ArrayLike | None) -> np.ndarray:
        count = len(self.embedding_)
        chosen = np.arange(count) if nodes is None else np.atleast_1d(np.asarray(nodes))
        if chosen.dtype == bool and chosen.shape == (count,):
            return np.flatnonzero(chosen)
        if chosen.size and not np.issubdtype(chosen.dtype, np.integer):
            raise UsageError(f"Nodes are whole numbers from 0 to {count - 1}, not {chosen.dtype}.")
        outside = chosen[(chosen < 0) | (chosen >= count)]
        if outside.size:
            raise UsageError(f"Nodes are 0 to {count - 1}; {outside[0]} is not among them.")
        return chosen.astype(np.int64)

    def _pairs(self, pairs: ArrayLike | None) -> np.ndarray:
        if pairs is None:
            raise UsageError("Link prediction answers for pairs: give an array [2, n] of nodes.")
        return np.asarray(pairs)

    def _side(self, graph: Graph, task: Task, split: NodeSplit | LinkSplit | None) -> TrainingData:
        if split is None:
            if not graph.has_labels and task.name not in TASKS:
                return TrainingData(graph)
            whole = full_split(graph, task.name, self.random_state)
            return training_data(graph, whole, use_labels=self.use_labels)
        wanted = "links" if task.name == "links" else "nodes"
        if split.kind != wanted:
            raise UsageError(
                f"task='{task.name}' needs a split of {wanted} and got one of {split.kind}: "
                f"use {'link' if wanted == 'links' else 'node'}_split(graph)."
            )
        side = training_data(graph, split, use_labels=self.use_labels)
        check_disjoint(side, split)
        return side
