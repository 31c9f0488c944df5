"""One fit, from the training data to a head: `fit_task`, and the steps that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from xtcl.config import EnsembleConfig, FitConfig
from xtcl.distributed import world
from xtcl.graph.graph import Graph
from xtcl.nn import encoder_factory, encoder_name
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.ensemble import HOPS, EncoderEnsemble
from xtcl.nn.functional import clear_tensor_caches
from xtcl.relations.store.relation_store import RelationStore
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.results import NO_SCORE, FittedEmbedding, Predictions
from xtcl.tasks.sampled_positives import SampledPositives, encoder_strategy, sample_positives
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
    with rows_computed_once(config, options) as shared:
        trial = Trial(task, config, shared)
        selected = choose_ensemble(data, trial)
        ensemble, local = selected.ensemble, shared.for_graph(data.graph)
        done = trial.label_free
        sampled = sample_positives(data.graph, task, config, local, ensemble, done)
        result = with_head(
            data,
            task,
            config,
            selected,
            # No name keeps this embedding: `with_head` frees it when it needs the memory.
            trial.train_last(data.graph, ensemble, sampled, local),
            shared,
        )
    result.fitted.sampler.use_store(options.store)  # not a folder that is gone
    return result


@contextmanager
def rows_computed_once(config: FitConfig, options: FitOptions) -> Iterator[FitOptions]:
    """The options with a relation store, where parts of the labels are hidden in turn.

    What relations compute without labels is then computed once for all parts and the fit. Without a
    store of the user's it is kept in a temporary folder. A GPU computes as quickly as it reads.
    """
    if not config.hidden_parts or options.store is not None or options.device.type == "cuda":
        yield options
        return
    with TemporaryDirectory(prefix="xtcl-") as folder:
        yield replace(options, store=RelationStore(Path(folder), durable=False))


def choose_ensemble(data: TrainingData, trial: Trial) -> Selected:
    """What the task chooses, or the checkpoint has."""
    options = trial.options
    saved = options.checkpoints.load("choice")
    if saved is not None:
        return Selected.from_tensors(saved)
    selected = trial.task.choose(data, trial.config, trial)
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
    label_free: dict[int, TrainedEncoder] = field(default_factory=dict)
    """Encoders by number whose positives depend on no label: the same whatever is hidden."""

    def fit_part(self, number: int, graph: Graph, ensemble: EnsembleConfig) -> FittedEmbedding:
        """Fit sampler and encoders on `graph`, from which part `number` of the labels is hidden."""
        checkpoints = self.options.checkpoints.subfolder(f"hidden-{number}")
        options = replace(self.options, checkpoints=checkpoints)
        done = self.label_free
        sampled = sample_positives(
            graph, self.task, self.config, options, ensemble, done, is_part=True
        )
        return train_ensemble(
            graph, self.task, self.config, ensemble, sampled, options, label_free=done
        )

    def train_last(
        self,
        graph: Graph,
        ensemble: EnsembleConfig,
        sampled: SampledPositives,
        options: FitOptions,
    ) -> FittedEmbedding:
        """Train on all training data. What parts shared is not needed after it, and is freed."""
        task, done = self.task, self.label_free
        fitted = train_ensemble(
            graph, task, self.config, ensemble, sampled, options, label_free=done
        )
        done.clear()
        return fitted

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
    """The embedding with its head.

    Where hidden labels chose, `Task.fit_chosen` fits what they chose. Otherwise in four steps:

    1. `Task.fit_head` fits a head, well enough to be compared.
    2. With `FitConfig.downweight` below 1 it fits another one to the embedding with less weight on
       the encoders, beside the attributes. The first is taken only where it makes held-out labels
       likelier by MIN_GAIN.
    3. `Task.finish_head` fits the one that is taken to the end.
    4. With `FitConfig.self_training_threshold` below 1 `Task.self_train` fits it once more, with
       its own predictions as labels.
    """
    if selected.blend is not None:
        precision = config.pseudo_label_precision
        chosen = task.fit_chosen(data, fitted, selected, precision, options.seed)
        return FittedTask(task, fitted, chosen, data.graph.num_classes)
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


class TrainedEncoder(NamedTuple):
    """An encoder, the embedding that it gives, and its training."""

    encoder: nn.Module
    embedding: Tensor
    losses: tuple[float, ...]
    epochs: int
    score: float


def train_ensemble(
    training: Graph,
    task: Task,
    config: FitConfig,
    ensemble: EnsembleConfig,
    sampled: SampledPositives,
    options: FitOptions,
    scorer: EmbeddingScorer | None = None,
    best_other: float = NO_SCORE,
    label_free: dict[int, TrainedEncoder] | None = None,
) -> FittedEmbedding:
    """Train the encoders of `ensemble` one after the other, each with its own seed; join them.

    With a scorer each of them is trained for as long as its score improves; `best_other` is the
    best score of another ensemble. Encoders of `label_free` are taken from there, and those whose
    strategy reads no labels are added to it.
    """
    x, edge_index = encoder_inputs(training, options.device)
    label_free = {} if label_free is None else label_free
    done: list[TrainedEncoder] = []
    for number, encoder_config in enumerate(ensemble.encoders):
        if number in label_free:
            done.append(label_free[number])
            continue
        strategy = encoder_strategy(encoder_config, config, options)
        table = sampled.of_strategies.get(strategy.name, sampled.positives)
        over = edge_index
        if encoder_config.messages == "likely" and sampled.likely is not None:
            over = sampled.likely.links
        stopping = None if scorer is None else EarlyStopping(scorer, best_other=best_other)
        with options.progress.stage("training", encoder_config.training.epochs) as advance:
            encoder, trained = train(
                encoder_factory(options.encoder, x.shape[1], encoder_config.encoder),
                x,
                over,
                task.sources(sampled.sampler.view_, table, config),
                encoder_config.training,
                seed=encoder_seed(options.seed, number),
                on_epoch=_counting(advance),
                checkpoints=options.checkpoints.subfolder(f"member-{number}"),
                early_stopping=stopping,
                loss=options.loss,
            )
        score = NO_SCORE if stopping is None else stopping.best_score
        epochs = 0 if stopping is None else stopping.best_epoch
        epochs = epochs or encoder_config.training.epochs
        done.append(TrainedEncoder(encoder, trained.embedding, trained.losses, epochs, score))
        if not strategy.reads_labels and encoder_config.messages == "links":
            label_free[number] = done[-1]
    encoder_configs = tuple(
        each.trained(of.epochs, sampled.trust)
        for each, of in zip(ensemble.encoders, done, strict=True)
    )
    # A graph without attributes has random ones, which are no part of the embedding.
    attributes = ensemble.attributes if training.has_attributes else 0.0
    joined = EncoderEnsemble(
        [each.encoder for each in done],
        [each.weight for each in encoder_configs],
        attributes,
        sampled.trust,
        likely=sampled.likely,
        over_likely=[each.messages == "likely" for each in ensemble.encoders],
    )
    widths = tuple(each.embedding.shape[1] for each in done)
    losses, score = tuple(each.losses for each in done), done[-1].score
    with torch.no_grad():
        embedding = joined.join([each.embedding for each in done], x, edge_index)
    clear_tensor_caches(joined)  # the model keeps no data
    return FittedEmbedding(
        sampled.sampler,
        sampled.positives,
        EnsembleConfig(encoder_configs, attributes),
        joined.eval(),
        embedding,
        losses,
        score,
        widths,
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
