"""XTCL: the estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, Tags
from torch import nn

from xtcl.config import FitConfig
from xtcl.device import limit_gpu_memory
from xtcl.errors import NotAvailableError, UsageError, check_is_fitted
from xtcl.graph.convert import as_graph, is_of
from xtcl.graph.splits import as_test_side
from xtcl.inference.compact import CompactMap, compact_map_of
from xtcl.inference.tables import embedding_table, names_of, node_indices, node_number
from xtcl.planning.memory_plan import MemoryPlan
from xtcl.prepare import FitSettings, PreparedFit, environment, prepare, resolve_config
from xtcl.progress import Progress, progress_of
from xtcl.relations import Relation, RelationStore
from xtcl.renamed import warn_renamed
from xtcl.sampling import PairExplanation, PositiveStrategy, RelationWeight
from xtcl.tasks import make_task
from xtcl.tasks.blend import BlendedHead
from xtcl.tasks.custom import CustomTask
from xtcl.tasks.fit import FittedTask, fit_task
from xtcl.tasks.link_prediction import LinkPrediction
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import LinkScores, NodePredictions, Predictions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData, check_disjoint
from xtcl.training.checkpoint import NullCheckpoints

if TYPE_CHECKING:
    import pandas as pd

    from xtcl.inference.explain import NodeExplanation

P = ParamSpec("P")
R = TypeVar("R")


class AvailableMethod(Generic[P, R]):
    """A method that a model has unless `check` raises; see `available_unless`."""

    def __init__(
        self, method: Callable[Concatenate[XTCL, P], R], check: Callable[[XTCL], None]
    ) -> None:
        self.method, self.check = method, check
        self.__doc__ = method.__doc__

    def __get__(self, model: XTCL | None, owner: type[XTCL]) -> Callable[P, R]:
        if model is not None:
            try:
                self.check(model)
            except UsageError as refusal:
                raise NotAvailableError(str(refusal)) from None
        bound: Callable[P, R] = self.method.__get__(model, owner)
        return bound


def available_unless(
    check: Callable[[XTCL], None],
) -> Callable[[Callable[Concatenate[XTCL, P], R]], AvailableMethod[P, R]]:
    """A decorator for methods that are absent where `check` raises a `UsageError`.

    scikit-learn's `available_if` raises a bare AttributeError. This one keeps the sentence.
    """
    return lambda method: AvailableMethod(method, check)


def _check_predicts_probabilities(model: XTCL) -> None:
    """Raise if the fitted model has no head, or if it will have none, as for `CustomTask`."""
    if hasattr(model, "fitted_task_") or isinstance(model.task, CustomTask):
        _ = model.predictions_  # raises if there is no head, or no fit


def _check_scores_pairs(model: XTCL) -> None:
    """Raise if the model is not for links."""
    if not hasattr(model, "fitted_task_") and (
        model.task == "links" or isinstance(model.task, LinkPrediction)
    ):
        return
    if not isinstance(model.predictions_, LinkScores):
        raise UsageError("decision_function is for task='links'; use predict_proba for nodes.")


class XTCL(BaseEstimator):  # type: ignore[misc]
    """Task-aware node embeddings, and a weight for each graph signal.

    Parameters
    ----------
    task : "nodes", "links" or a Task
        What the embeddings are for. `CustomTask` takes an indicator function of your own.
    encoder : "gcn", "gat" or a module
        A module of your own takes `(x, edge_index)` and is copied, never changed.
    relations : "paper", or names and Relation objects
        The graph signals to choose from; "paper" are all nine.
    sampler : "xtcl" or "paper"
        "paper" is Algorithm 1 and Equation 1 as printed; see `FitConfig.as_in_paper`.
    recipe : FitConfig, name or None
        Every setting of the fit at once, as `xtcl tune` finds it; None is the task's own. For nodes
        by name: "hidden-labels", the default, where labels hidden from the fit choose what
        predicts; "quick", the same with fewer candidates, in less than a third of the seconds;
        "2026-11", the default before, with fixed rules.
    metric : str or None
        What hidden labels choose for, where the recipe asks them, instead of accuracy: also
        "balanced_accuracy", "macro_f1", "log_loss", "roc_auc" or "average_precision".
    crossfit, negatives, width : int or None
        Single settings instead of the recipe's: folds, negatives of a step, columns of each
        encoder.
    positives : int, name, PositiveStrategy or None
        A number is the paper's B, instead of the recipe's. A name or an object is the strategy by
        which positives are chosen: "learned", "uniform", "same-label", "naive", a
        mixture such as "learned+uniform", or your own; see `xtcl.sampling.strategies`.
    quantiles : sequence of float or None
        The quantiles of a row at which its thresholds lie, instead of the recipe's.
    temperature, learning_rate : float or None
        Of the training, instead of the recipe's.
    similarity : "cosine", "inner" or None
        The similarity of embeddings in the loss, instead of the recipe's.
    epochs : int or None
        Instead of the recipe's. Training then runs for all epochs, without early stopping.
    cap : int or None
        Top-k mode: of each node's above set for a relation only the `cap` best count. Time and
        memory then grow with V * cap, not with V * V. None is exact mode; see docs/top-k.md.
    index_past : int or None
        In top-k mode: where more nodes than this have different attributes, an approximate index
        of FAISS does the search. None searches exactly, in V * V steps.
    encoder_options : dict or None
        One encoder with these options and nothing beside it, in place of those of the recipe:
        `{"layers": 2, "hops": 1}` is a two-layer GCN.
    use_labels : bool
        Let the label relations see the graph's labels in link prediction.
    device : "auto", "cpu", "cuda", ...
    memory : amount such as "4GB", or None
        The limit. The fit works in smaller blocks, which changes no result. Where a training step
        over the whole graph does not fit, it trains in mini-batches; see docs/memory.md.
    store : folder, RelationStore or None
        Where above pairs and positives are kept for the next fit; the result does not change.
    random_state : int, numpy.random.RandomState or None
        Seeds everything. None takes another seed in each fit; `random_state_` is the one it took.
        Global random states are not touched.
    progress : Progress or None
        Receives every stage of a fit and its steps: a subclass of `xtcl.Progress`, whose
        `stage(name, steps)` is a context manager that returns a function to advance. None leaves
        the choice to `verbose`.
    verbose : bool or None
        Show how far a fit is: a display in a notebook, bars on a terminal, and elsewhere lines on
        standard error, for a log. None is True in a notebook, and False elsewhere.

    Attributes
    ----------
    embedding_ : float32 array [V, width]; the full embedding, of up to thousands of columns: the
        encoders of the recipe side by side, and the attributes beside them
    compact_embedding_ : float32 array [V, 256 or fewer]; columns of mean 0 and variance 1
    compact_map_ : CompactMap; the linear map from the full embedding to the compact one
    relation_weights_ : tuple of RelationWeight, in training order
    positives_ : int64 array [V, B], -1 where a node has fewer
    loss_curves_ : for each encoder a tuple of float, one an epoch
    plan_ : the encoders and epochs that the fit chose
    choice_ : Blend or None; what hidden labels chose, where the recipe asks them
    head_, encoder_, sampler_, classes_, recipe_ : the fitted parts
    predictions_ : NodePredictions or LinkScores; what the head predicts
    graph_, split_ : the Graph and the split of the fit; a loaded model has no graph_
    random_state_ : int; the seed of the fit
    training_data_ : TrainingData; the graph without the test side of the split
    test_labels_ : label codes of the test nodes in the order of split_.test, or None
    fitted_task_ : FittedTask; the task with embedding and head
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
        recipe: FitConfig | str | None = None,
        metric: str | None = None,
        crossfit: int | None = None,
        quantiles: Sequence[float] | None = None,
        positives: int | str | PositiveStrategy | None = None,
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
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.task = task
        self.encoder = encoder
        self.relations = relations
        self.sampler = sampler
        self.recipe = recipe
        self.metric = metric
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
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """A classifier where it is for nodes; the labels come with the graph, not as y."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        if self.task == "nodes" or type(self.task) is NodeClassification:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def fit(
        self,
        graph: Any,
        split: Any = None,
        *,
        checkpoints: NullCheckpoints | None = None,
    ) -> XTCL:
        """Fit on the training side of `split`; without one, on all labels or links there are.

        `graph` is a Graph, a PyG `Data`, a NetworkX graph or a SciPy adjacency matrix (see
        `as_graph`). `split` may also be the training nodes alone, as a mask or as node numbers.
        For nodes, a `train_mask` of a `Data` counts as such a split: no other label is used.
        Training in mini-batches, where memory has no room for the whole graph, comes with a
        warning, as it changes the result.
        """
        prepared = prepare(self, graph, split)
        for note in prepared.plan.notes:
            warnings.warn(note, stacklevel=2)
        return self.fit_prepared(prepared, checkpoints=checkpoints)

    def fit_prepared(
        self, prepared: PreparedFit, *, checkpoints: NullCheckpoints | None = None
    ) -> XTCL:
        """Run the fit that `prepare` made ready with the parameters of this estimator.

        The caller reports `prepared.plan.notes`: unlike `fit`, this does not warn.
        """
        options = prepared.options(progress_of(self), checkpoints or NullCheckpoints())
        with limit_gpu_memory(prepared.settings.memory, prepared.device):
            result = fit_task(prepared.data, prepared.task, prepared.config, options)
        self.set_fitted(result, prepared.data)
        self.recipe_, self.graph_, self.split_ = prepared.config, prepared.graph, prepared.split
        self.test_labels_ = prepared.test_labels
        self.random_state_ = prepared.settings.seed
        self.environment_ = environment(prepared.device)
        return self

    def set_fitted(self, result: FittedTask, side: TrainingData) -> None:
        """Set the fitted attributes; `fit` and `load` call it."""
        self.fitted_task_ = result
        for of_last_fit in ("compact_map_", "compact_embedding_"):
            self.__dict__.pop(of_last_fit, None)
        self.training_data_ = side
        self.embedding_ = result.fitted.embedding.cpu().numpy()
        self.positives_ = result.fitted.positives
        self.sampler_ = result.fitted.sampler
        self.encoder_ = result.fitted.encoder
        self.head_ = result.head
        self.choice_ = result.head.blend if isinstance(result.head, BlendedHead) else None
        self.loss_curves_ = result.fitted.losses
        self.plan_ = result.fitted.ensemble
        self.relation_weights_: tuple[RelationWeight, ...] = self.sampler_.relation_weights_
        self.classes_ = np.array(side.graph.classes, dtype=object)
        self.n_features_in_ = side.graph.num_attributes

    @property
    def predictions_(self) -> Predictions:
        """What the head predicts: class probabilities of nodes, or scores of pairs."""
        check_is_fitted(self)
        return self.fitted_task_.answer

    @cached_property
    def compact_map_(self) -> CompactMap:
        """The linear map from `embedding_` to `compact_embedding_`; see `xtcl.inference.compact`.

        It is fitted when it is first needed, in seconds, and saved with the model.
        """
        check_is_fitted(self)
        return compact_map_of(self)

    @cached_property
    def compact_embedding_(self) -> np.ndarray:
        """The compact embedding, float32 [V, 256 or fewer]: columns of mean 0 and variance 1."""
        return self.compact_map_.apply(self.fitted_task_.fitted.embedding)

    @property
    def training_side_(self) -> TrainingData:
        """The old name of `training_data_`."""
        warn_renamed("training_side_", "training_data_")
        return self.training_data_

    def predict(self, nodes_or_pairs: ArrayLike | None = None) -> np.ndarray:
        """Class of `nodes` (all when left out), or whether `pairs` [2, n] are links."""
        answer = self.predictions_
        if isinstance(answer, NodePredictions):
            codes = answer.classes_of(answer.of(self._nodes(nodes_or_pairs)))
            return self.training_data_.graph.label_values(codes)
        return np.asarray(expit(answer.score(self._pairs(nodes_or_pairs))) >= 0.5)

    @available_unless(_check_predicts_probabilities)
    def predict_proba(self, nodes_or_pairs: ArrayLike | None = None) -> np.ndarray:
        """Class probabilities of `nodes` [n, C], or the chance of a link for `pairs` [2, n]."""
        answer = self.predictions_
        if isinstance(answer, NodePredictions):
            return answer.of(self._nodes(nodes_or_pairs))
        return np.asarray(expit(answer.score(self._pairs(nodes_or_pairs))))

    @available_unless(_check_scores_pairs)
    def decision_function(self, pairs: ArrayLike) -> np.ndarray:
        """Score of each pair [2, n]: the higher, the more likely a link.

        `SignalHead.score` of `xtcl.tasks.link_head` computes it: the log-odds of a link.
        """
        answer = cast("LinkScores", self.predictions_)
        return answer.score(self._pairs(pairs))

    def score(self, split: Any, graph: Any = None) -> float:
        """Accuracy or AUC on the test side of `split`; a loaded model needs the `graph` too.

        `split` may also be the test nodes alone, as a mask or as node numbers, or a PyG `Data` with
        a `test_mask`. For links it may be the test data of PyG's `RandomLinkSplit`.
        """
        return self.test_metrics(split, graph)[self.fitted_task_.task.metric]

    def test_metrics(self, split: Any, graph: Any = None) -> dict[str, float]:
        """All metrics of the task on the test side of `split`, as fractions; see `score`."""
        answer = self.predictions_
        known = getattr(self, "graph_", None)
        if graph is None and known is None and is_of(split, "torch_geometric"):
            graph = split
        if graph is not None:
            known = as_graph(graph, warn_masks=False)
        if known is None and isinstance(answer, LinkScores):
            known = self.training_data_.graph  # links are scored by the split alone
        if known is None:
            raise UsageError("A loaded model has no test labels: call score(split, graph).")
        split = as_test_side(split, known, self.fitted_task_.task.name)
        if not split.test.size:
            raise UsageError("This split has no test side: give one that has, or the test nodes.")
        metrics = dict(score_test_side(answer, known, split))
        if not hasattr(self, "graph_") or split is not self.split_:  # that was checked by `fit`
            check_disjoint(self.training_data_, split)
        return metrics

    def explain(self, u: int, v: int) -> PairExplanation:
        """The contribution of each relation to the score of v for u."""
        check_is_fitted(self)
        return self.sampler_.explain(u, v)

    def predict_frame(self) -> pd.DataFrame:
        """For every node id: class, its probability, training label, all class probabilities.

        docs/answers.md shows an example of this method and of the following ones.
        """
        from xtcl.inference.predict import predictions

        return predictions(self).frame()

    def embedding_frame(self, full: bool = False) -> pd.DataFrame:
        """A row for every node id: its compact embedding, in the columns z000, z001, ...

        With `full` it is `embedding_`, in the columns z0, z1, ...
        """
        check_is_fitted(self)
        rows = self.embedding_ if full else self.compact_embedding_
        return embedding_table(names_of(self.training_data_.graph), rows, full=full).frame()

    def likely_links(self, k: int = 5) -> pd.DataFrame:
        """The `k` most likely missing links of every node, in descending order."""
        from xtcl.inference.links import likely_links

        return likely_links(self, k).frame()

    def node_number(self, name: object) -> int:
        """The number of the node with the id `name`, for `predict` and `explain`."""
        check_is_fitted(self)
        return node_number(self.training_data_.graph, name)

    def explain_node(self, u: int) -> NodeExplanation:
        """Prediction for node number `u`, its positives and their reasons, and its neighbours."""
        from xtcl.inference.explain import explain_node

        return explain_node(self, u)

    def predict_new(self, nodes: Any, edges: Any = None) -> pd.DataFrame:
        """`predict_frame` of nodes that are not in the graph of the fit.

        After a fit from tables, `nodes` and `edges` are files or data frames, as for `read_tables`.
        After any other, `nodes` is a graph with the nodes of the fit first, in their order, and the
        new ones after them; or the attributes [n, D] of the new nodes, and `edges` their links
        [2, m], in which V is the first new node. Nothing is fitted again. The predictions for the
        nodes of the fit do not change.
        """
        from xtcl.inference.predict import predict_new

        return predict_new(self, nodes, edges).frame()

    def embed_new(self, nodes: Any, edges: Any = None, full: bool = False) -> pd.DataFrame:
        """`embedding_frame` of nodes that are not in the graph of the fit; see `predict_new`."""
        from xtcl.inference.predict import embed_new

        rows = embed_new(self, nodes, edges, full=full)
        return embedding_table(rows.names, rows.embedding, full=full).frame()

    def resolved_recipe(self) -> FitConfig:
        """The task's configuration with the parameters given here; raises if one is invalid."""
        return resolve_config(self, make_task(self.task))

    def save(self, folder: str | PathLike[str], **extra: Any) -> None:
        """Write a run directory; see `xtcl.runs.run_folder` for what is in it.

        With `full=True` its file of embeddings has the full one.
        """
        from xtcl.runs.run_folder import write_run

        check_is_fitted(self)
        options: dict[str, Any] = {"split": getattr(self, "split_", None), **extra}
        write_run(self, folder, **options)

    def report(self, path: str | PathLike[str]) -> None:
        """Write one self-contained HTML file about the fit; docs/report.md says how to read it.

        With a split it shows scores on the test side, too, also after `save` and `load`.
        """
        from xtcl.report.page import write_page

        check_is_fitted(self)
        write_page(self, path)

    @classmethod
    def load(cls, folder: str | PathLike[str], **parts: Any) -> XTCL:
        """Read a run directory. A module or task of your own is given as `encoder=` or `task=`."""
        from xtcl.runs.run_folder import read_run

        return read_run(cls, folder, **parts)

    def memory_plan(self, graph: Any, split: Any = None) -> MemoryPlan:
        """The memory of a fit, and how it stays within `memory`; raises if that is too little."""
        return prepare(self, graph, split, FitSettings.of(self, seed=0)).plan

    def _nodes(self, nodes: ArrayLike | None) -> np.ndarray:
        return node_indices(self, nodes)

    def _pairs(self, pairs: ArrayLike | None) -> np.ndarray:
        if pairs is None:
            raise UsageError("Link prediction answers for pairs: give an array [2, n] of nodes.")
        return np.asarray(pairs)
