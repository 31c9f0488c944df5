"""One fit, from the training data to a head: `fit_task`, and the steps that it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from xtcl.config import EnsembleConfig, FitConfig
from xtcl.distributed import world
from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.nn import encoder_factory, encoder_name
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.ensemble import HOPS, EncoderEnsemble
from xtcl.nn.functional import clear_tensor_caches
from xtcl.nn.loss import Loss
from xtcl.progress import Progress
from xtcl.relations.relation import Relation
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import TrainingView
from xtcl.sampling.strategies import PositiveSource, PositiveStrategy, checked_table, make_strategy
from xtcl.sampling.xgsampler import XGSampler, counts_to_arrays, sampler_from_counts
from xtcl.tasks.results import NO_SCORE, FittedEmbedding, Predictions
from xtcl.tasks.task import Selected, Task
from xtcl.tasks.training_data import TrainingData
from xtcl.training.checkpoint import NullCheckpoints
from xtcl.training.early_stopping import EarlyStopping, EmbeddingScorer
from xtcl.training.trainer import embed, train

MIN_GAIN = 0.005
"""How much higher the mean log-likelihood of held-out labels must be with the full weight of the
encoders, which may have seen them. On Cora, CiteSeer and Computers it is 0.01 and more, on Photo
not."""


@dataclass(frozen=True)
class FittedTask:
    """Embeddings and the head that predicts from them."""

    task: Task
    fitted: FittedEmbedding
    head: Any
    num_classes: int

    @cached_property
    def answer(self) -> Predictions:
        """What the head predicts."""
        return self.task.answer(self.head, self.fitted, self.num_classes)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle, without the predictions: the head makes them again."""
        return {name: value for name, value in vars(self).items() if name != "answer"}


def fit_task(
    data: TrainingData,
    task: Task,
    config: FitConfig | None = None,
    options: FitOptions | None = None,
) -> FittedTask:
    """Fit embeddings and head on the training data: choose, sample, train, fit the head."""
    options = options or FitOptions()
    config = config or task.recipe(encoder_name(options.encoder))
    selected = choose_ensemble(data, task, config, options)
    local = options.for_graph(data.graph)
    sampled = sample_positives(data.graph, task, config, local)
    return with_head(
        data,
        task,
        config,
        selected,
        # No name keeps this embedding: `with_head` frees it when it needs the memory.
        train_ensemble(data.graph, task, config, selected.ensemble, sampled, local),
        options,
    )


def choose_ensemble(
    data: TrainingData, task: Task, config: FitConfig, options: FitOptions
) -> Selected:
    """What the task chooses, or the checkpoint has."""
    saved = options.checkpoints.load("choice")
    if saved is not None:
        return Selected.from_tensors(saved)
    selected = task.choose(data, config, Trial(task, config, options))
    ranks = world()
    if ranks.world_size > 1:  # that of the first rank, so that rounding leads no two apart
        selected = Selected.from_tensors(ranks.broadcast_tensors(selected.to_tensors()) or {})
    options.checkpoints.save("choice", selected.to_tensors())
    return selected


@dataclass(frozen=True)
class Trial:
    """Fits on a part of the training data, for a task that tries ensembles before it takes one."""

    task: Task
    config: FitConfig
    options: FitOptions

    def sample(self, graph: Graph) -> SampledPositives:
        """Fit the sampler on `graph`, and take the positives."""
        return sample_positives(graph, self.task, self.config, self.options.for_graph(graph))

    def train(
        self,
        graph: Graph,
        ensemble: EnsembleConfig,
        sampled: SampledPositives,
        scorer: EmbeddingScorer | None,
        best_other: float,
    ) -> FittedEmbedding:
        """Train `ensemble` on `graph`.

        With a scorer training ends where the score no longer improves, or stays far below
        `best_other`. It is not resumed: a trial that was interrupted trains again.
        """
        options = replace(self.options, checkpoints=NullCheckpoints())
        return train_ensemble(
            graph, self.task, self.config, ensemble, sampled, options, scorer, best_other
        )


def with_head(
    data: TrainingData,
    task: Task,
    config: FitConfig,
    selected: Selected,
    fitted: FittedEmbedding,
    options: FitOptions,
) -> FittedTask:
    """The embedding with its head, in four steps.

    1. `Task.fit_head` fits a head, well enough to be compared.
    2. With `FitConfig.downweight` below 1 it fits another one to the embedding with less weight on
       the encoders, beside the attributes. The first is taken only where it makes held-out labels
       likelier by MIN_GAIN.
    3. `Task.finish_head` fits the one that is taken to the end.
    4. With `FitConfig.self_training_threshold` below 1 `Task.self_train` fits it once more, with
       its own predictions as labels.
    """
    head = task.fit_head(data, fitted.embedding, selected, options.seed)
    if config.downweight < 1 and fitted.ensemble.attributes:
        lighter = with_downweighted_encoder(fitted, data.graph.num_attributes, config.downweight)
        other = task.fit_head(data, lighter.embedding, selected, options.seed)
        gain = task.cv_log_likelihood(head) - task.cv_log_likelihood(other)
        if gain < MIN_GAIN:  # not where one of them is nan
            head, bare = other, replace(lighter, embedding=torch.empty(0))
            del fitted, lighter  # no embedding takes memory while the encoder makes its own
            fitted = embedded_again(bare, data.graph, options.device)
        else:
            del lighter
    head = task.finish_head(data, fitted.embedding, head)
    if config.self_training_threshold < 1:
        head = task.self_train(data, fitted.embedding, head, config, options.seed)
    return FittedTask(task, fitted, head, data.graph.num_classes)


@dataclass(frozen=True)
class FitOptions:
    """What a fit takes besides data, task and configuration."""

    encoder: str | nn.Module = "gcn"
    relations: str | Sequence[str | Relation] = "paper"
    strategy: PositiveStrategy | None = None  # in place of the one that the recipe names
    loss: Loss | None = None  # in place of Equation 1
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    block_rows: int | None = None
    keep_relations: bool = True  # after the positives, for explanations and scores of links
    store: RelationStore | None = None
    progress: Progress = field(default_factory=Progress)
    checkpoints: NullCheckpoints = field(default_factory=NullCheckpoints)

    def for_graph(self, graph: Graph) -> FitOptions:
        """The options with checkpoints for this graph: a task may fit on several."""
        return replace(self, checkpoints=self.checkpoints.subfolder(graph.fingerprint()[:16]))


class SampledPositives(NamedTuple):
    """The fitted sampler, the table [V, B] of positives, and how far they are trusted."""

    sampler: XGSampler
    positives: np.ndarray
    trust: float = 1.0


def fit_sampler(training: Graph, task: Task, config: FitConfig, options: FitOptions) -> XGSampler:
    """Fit the weights of the relations on `training`."""
    view = TrainingView.of(training, TrainingData(training).labelled, options.device)
    sampler = XGSampler(
        options.relations,
        config.sampler,
        block_rows=options.block_rows,
        random_state=options.seed,
        store=options.store,
    )
    saved = options.checkpoints.load("counts")
    if saved is not None:
        arrays = {name: tensor.numpy() for name, tensor in saved.items()}
        return sampler_from_counts(sampler, view, arrays)
    folds = task.folds(view, config.crossfit, np.random.default_rng([options.seed, 0]))
    with options.progress.stage("learning which relations matter", len(folds)) as advance:
        sampler.fit_folds(view, folds, advance, checkpoints=options.checkpoints)
    kept = {name: torch.from_numpy(array) for name, array in counts_to_arrays(sampler).items()}
    options.checkpoints.save("counts", kept)
    return sampler


def sample_positives(
    training: Graph, task: Task, config: FitConfig, options: FitOptions
) -> SampledPositives:
    """Fit the sampler, and take every node's positives by the strategy of the fit."""
    sampler = fit_sampler(training, task, config, options)
    saved = options.checkpoints.load("positives")
    if saved is not None:
        return SampledPositives(sampler, saved["nodes"].numpy(), float(saved["trust"]))
    strategy = options.strategy or make_strategy(config.strategy)
    with options.progress.stage("finding positives", sampler.view_.num_nodes) as advance:
        source = PositiveSource(
            sampler,
            options.seed,
            config.min_probability,
            config.hops,
            task.excluded(sampler.view_, config),
            advance,
            options.checkpoints,
        )
        nodes, trust = checked_table(strategy, source, config.positives)
    # Known links are enough for links; where the sampler finds nothing, trust is low.
    if not ((nodes >= 0).any() or config.num_links_per_step or strategy.learns):
        raise DataError(
            f"The strategy '{strategy.name}' finds no positive for any node of graph "
            f"'{training.name}': give more labels or links, or attributes that say more."
        )
    kept = {"nodes": torch.from_numpy(nodes), "trust": torch.tensor(trust, dtype=torch.float64)}
    options.checkpoints.save("positives", kept)
    if not options.keep_relations:
        sampler.forget_relations()
    return SampledPositives(sampler, nodes, trust)


def train_ensemble(
    training: Graph,
    task: Task,
    config: FitConfig,
    ensemble: EnsembleConfig,
    sampled: SampledPositives,
    options: FitOptions,
    scorer: EmbeddingScorer | None = None,
    best_other: float = NO_SCORE,
) -> FittedEmbedding:
    """Train the encoders of `ensemble` one after the other, each with its own seed; join them.

    With a scorer each of them is trained for as long as its score improves; `best_other` is the
    best score of another ensemble.
    """
    x, edge_index = encoder_inputs(training, options.device)
    sources = task.sources(sampled.sampler.view_, sampled.positives, config)
    encoders, parts, losses, encoder_configs = [], [], [], []
    score = NO_SCORE
    for number, encoder_config in enumerate(ensemble.encoders):
        stopping = None if scorer is None else EarlyStopping(scorer, best_other=best_other)
        with options.progress.stage("training", encoder_config.training.epochs) as advance:
            encoder, trained = train(
                encoder_factory(options.encoder, x.shape[1], encoder_config.encoder),
                x,
                edge_index,
                sources,
                encoder_config.training,
                seed=encoder_seed(options.seed, number),
                on_epoch=_counting(advance),
                checkpoints=options.checkpoints.subfolder(f"member-{number}"),
                early_stopping=stopping,
                loss=options.loss,
            )
        score = score if stopping is None else stopping.best_score
        encoders.append(encoder)
        parts.append(trained.embedding)
        losses.append(trained.losses)
        epochs = (
            stopping.best_epoch
            if stopping is not None and stopping.best_epoch
            else encoder_config.training.epochs
        )
        encoder_configs.append(encoder_config.trained(epochs, sampled.trust))
    # A graph without attributes has random ones, which are no part of the embedding.
    attributes = ensemble.attributes if training.has_attributes else 0.0
    joined = EncoderEnsemble(
        encoders, [each.weight for each in encoder_configs], attributes, sampled.trust
    )
    with torch.no_grad():
        embedding = joined.join(parts, x, edge_index)
    clear_tensor_caches(joined)  # the model keeps no data
    del parts
    return FittedEmbedding(
        sampled.sampler,
        sampled.positives,
        EnsembleConfig(tuple(encoder_configs), attributes),
        joined.eval(),
        embedding,
        tuple(losses),
        score,
    )


def with_downweighted_encoder(
    fitted: FittedEmbedding, num_attributes: int, downweight: float
) -> FittedEmbedding:
    """The fit with its trust in the encoders multiplied by `downweight`.

    The columns of the encoders are scaled, so that none of them embeds again: the embedding is that
    of the new encoder up to rounding.
    """
    encoder = fitted.encoder.with_trust(downweight * float(fitted.encoder.trust))
    embedding = fitted.embedding.clone()
    learned = embedding.shape[1] - len(HOPS) * num_attributes
    embedding[:, :learned] *= downweight**0.5
    return replace(fitted, encoder=encoder, embedding=embedding)


def embedded_again(
    fitted: FittedEmbedding, training: Graph, device: torch.device
) -> FittedEmbedding:
    """The fit with the embedding that its encoder gives, to the last bit."""
    embedding = embed(fitted.encoder, *encoder_inputs(training, device), fitted.ensemble.batch)
    clear_tensor_caches(fitted.encoder)  # the model keeps no data
    return replace(fitted, embedding=embedding)


def encoder_seed(seed: int, number: int) -> int:
    """The seed of an encoder: the first has the fit's own, the others seeds drawn from it.

    Torch reads no more than 32 bits of a seed on a CPU.
    """
    if number == 0:
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _counting(advance: Callable[[int], None]) -> Callable[[int, float], None]:
    """Report the epochs that are new; a training that is resumed starts with more than one."""
    done = 0

    def on_epoch(epoch: int, loss: float) -> None:
        nonlocal done
        advance(epoch - done)
        done = epoch

    return on_epoch
