"""A whole fit for a task: the choice of a plan, embeddings and head."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from xtcl.config import EnsembleConfig, FitConfig, to_builtin
from xtcl.device import trim_heap
from xtcl.distributed import world
from xtcl.graph.graph import Graph
from xtcl.nn import encoder_maker
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.ensemble import HOPS, EncoderEnsemble
from xtcl.nn.functional import clear_tensor_caches
from xtcl.nn.loss import Loss
from xtcl.progress import Progress
from xtcl.relations.relation import Relation
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import TrainingView
from xtcl.sampling.positives import Positives
from xtcl.sampling.xgsampler import XGSampler, counts_to_arrays, sampler_from_counts
from xtcl.tasks.link_head import SignalHead
from xtcl.tasks.results import NO_POSITIVES, FittedEmbedding, Predictions
from xtcl.tasks.task import Selected, Task, Train
from xtcl.tasks.training_data import TrainingData
from xtcl.training.checkpoint import NullCheckpoints
from xtcl.training.early_stopping import EarlyStopping, Scorer
from xtcl.training.trainer import embed, train

MIN_GAIN = 0.005
"""By how much the log-likelihood of a held-out label must be higher with all that was learned, some
of which may have seen it. On Cora, CiteSeer and Computers it is by 0.01 and more, on Photo not."""


@dataclass(frozen=True)
class FittedTask:
    """Embeddings with the head that answers from them."""

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
    side: TrainingData,
    task: Task,
    recipe: FitConfig | None = None,
    options: FitOptions | None = None,
) -> FittedTask:
    """Fit embeddings and head on the training side of the data."""
    options = options or FitOptions()
    name = options.encoder if isinstance(options.encoder, str) else "own"
    recipe = recipe or task.recipe(name)

    def on(training: Graph) -> tuple[FitOptions, SampledPositives]:
        # A task may fit more than once, each time on another graph: each has its own checkpoints.
        own = replace(options, checkpoints=options.checkpoints.inside(training.fingerprint()[:16]))
        return own, sample_positives(training, task, recipe, own)

    def trial(training: Graph) -> Train:
        own, found = on(training)
        own = replace(own, checkpoints=NullCheckpoints())  # a trial's training is not resumed

        def train(plan: EnsembleConfig, judge: Scorer | None, to_beat: float) -> FittedEmbedding:
            return train_ensemble(training, task, recipe, plan, found, own, judge, to_beat)

        return train

    saved = options.checkpoints.load("choice")
    if saved is not None:
        choice = _choice(saved)
    else:
        choice = _agreed(task.choose(side, recipe, trial, options.seed, options.device))
        options.checkpoints.save("choice", _tensors(choice))
    own, found = on(side.graph)
    return with_head(
        side,
        task,
        recipe,
        choice,
        train_ensemble(side.graph, task, recipe, choice.plan, found, own),
        options,
    )


def with_head(
    side: TrainingData,
    task: Task,
    recipe: FitConfig,
    choice: Selected,
    fitted: FittedEmbedding,
    options: FitOptions,
) -> FittedTask:
    """The embedding with its head, down-weighted where the head does as well without."""

    def headed(embedded: FittedEmbedding) -> FittedTask:
        head = task.fit_head(side, embedded.embedding, choice, options.seed)
        return FittedTask(task, embedded, head, side.graph.num_classes)

    chosen = headed(fitted)
    del fitted  # of the two embeddings one is not needed any more when the head is fitted again
    if recipe.downweight < 1 and chosen.fitted.plan.attributes:
        doubted = headed(
            with_downweighted_encoder(chosen.fitted, side.graph.num_attributes, recipe.downweight)
        )
        lead = task.evidence(chosen.head) - task.evidence(doubted.head)
        if lead < MIN_GAIN:  # not where nothing is known of one of them
            head, bare = doubted.head, replace(doubted.fitted, embedding=torch.empty(0))
            del chosen, doubted  # no embedding is there any more when the encoder gives its own
            fitted = embedded_again(bare, side.graph, options.device)
            chosen = FittedTask(task, fitted, head, side.graph.num_classes)
        else:
            del doubted
    embedding = chosen.fitted.embedding
    chosen = replace(chosen, head=task.finish_head(side, embedding, chosen.head))
    if recipe.self_training_threshold == 1:
        return chosen
    trim_heap()
    head = task.second_head(side, embedding, chosen.head, recipe, options.seed)
    return replace(chosen, head=head)


def _agreed(choice: Selected) -> Selected:
    """The choice of the first rank, so that rounding does not lead ranks different ways."""
    everyone = world()
    if everyone.number == 1:
        return choice
    return _choice(everyone.tensors_from_first(_tensors(choice)) or {})


def _tensors(choice: Selected) -> dict[str, Tensor]:
    text = json.dumps(to_builtin(asdict(choice.plan))).encode()
    scorer = {} if choice.scorer is None else choice.scorer.to_tensors()
    arrays = {f"scorer.{name}": torch.from_numpy(array) for name, array in scorer.items()}
    return arrays | {"plan": torch.frombuffer(bytearray(text), dtype=torch.uint8)}


def _choice(tensors: dict[str, Tensor]) -> Selected:
    plan = EnsembleConfig.from_dict(json.loads(tensors["plan"].numpy().tobytes()))
    scorer = {
        name.removeprefix("scorer."): tensor.numpy()
        for name, tensor in tensors.items()
        if name.startswith("scorer.")
    }
    return Selected(plan, SignalHead.from_tensors(scorer) if scorer else None)


@dataclass(frozen=True)
class FitOptions:
    """What a fit needs to know besides its recipe."""

    encoder: str | nn.Module = "gcn"
    relations: str | Sequence[str | Relation] = "paper"
    loss: Loss | None = None  # in place of Equation 1
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    block_rows: int | None = None
    keep_relations: bool = True  # after the positives, for explanations and scores of links
    store: RelationStore | None = None
    progress: Progress = field(default_factory=Progress)
    checkpoints: NullCheckpoints = field(default_factory=NullCheckpoints)


class SampledPositives(NamedTuple):
    """What the sampler learned, and the table [V, B] of positives it found.

    `trust` is the share of the best candidates that are likely enough, but never less than one of
    the B places: what was learned is not to be lost altogether.
    """

    sampler: XGSampler
    positives: np.ndarray
    trust: float = 1.0

    @classmethod
    def among(
        cls, candidates: Positives, sampler: XGSampler, recipe: FitConfig
    ) -> SampledPositives:
        """Those of the sampler's best candidates that the recipe takes for positives."""
        likely = (candidates.chances >= recipe.min_probability)[candidates.filled]
        share = float(likely.mean()) if len(likely) else 0.0
        nodes = candidates.likely(recipe.min_probability).nodes
        return cls(sampler, nodes, max(share, 1 / recipe.positives))


def fit_sampler(training: Graph, task: Task, recipe: FitConfig, options: FitOptions) -> XGSampler:
    """Learn from `training` which relations speak for the task."""
    view = TrainingView.of(training, TrainingData(training).labelled, options.device)
    sampler = XGSampler(
        options.relations,
        recipe.sampler,
        block_rows=options.block_rows,
        seed=options.seed,
        store=options.store,
    )
    saved = options.checkpoints.load("counts")
    if saved is not None:
        arrays = {name: tensor.numpy() for name, tensor in saved.items()}
        return sampler_from_counts(sampler, view, arrays)
    folds = task.folds(view, recipe.crossfit, np.random.default_rng([options.seed, 0]))
    with options.progress.stage("learning which relations matter", len(folds)) as advance:
        sampler.fit(view, folds, advance)
    kept = {name: torch.from_numpy(array) for name, array in counts_to_arrays(sampler).items()}
    options.checkpoints.save("counts", kept)
    return sampler


def sample_positives(
    training: Graph, task: Task, recipe: FitConfig, options: FitOptions
) -> SampledPositives:
    """Fit the sampler and take every node's best candidates."""
    sampler = fit_sampler(training, task, recipe, options)
    saved = options.checkpoints.load("positives")
    if saved is not None:
        return SampledPositives(sampler, saved["nodes"].numpy(), float(saved["trust"]))
    with options.progress.stage("finding positives", sampler.view_.num_nodes) as advance:
        unwanted = task.excluded(sampler.view_, recipe)
        candidates = sampler.positives(recipe.positives, exclude=unwanted, progress=advance)
    found = SampledPositives.among(candidates, sampler, recipe)
    trust = torch.tensor(found.trust, dtype=torch.float64)
    kept = {"nodes": torch.from_numpy(found.positives), "trust": trust}
    options.checkpoints.save("positives", kept)
    if not options.keep_relations:
        sampler.forget_relations()
    trim_heap()
    return found


def train_ensemble(
    training: Graph,
    task: Task,
    recipe: FitConfig,
    plan: EnsembleConfig,
    found: SampledPositives,
    options: FitOptions,
    judge: Scorer | None = None,
    to_beat: float = NO_POSITIVES,
) -> FittedEmbedding:
    """Train the members of `plan` one after the other, each with a seed of its own, and join them.

    With a judge each of them is trained for as long as the judge sees it improve; `to_beat` is its
    best verdict on another plan.
    """
    x, edge_index = encoder_inputs(training, options.device)
    sources = task.sources(found.sampler.view_, found.positives, recipe)
    encoders, parts, losses, members = [], [], [], []
    verdict = NO_POSITIVES
    for number, member in enumerate(plan.encoders):
        watch = None if judge is None else EarlyStopping(judge, to_beat=to_beat)
        with options.progress.stage("training", member.training.epochs) as advance:
            encoder, trained = train(
                encoder_maker(options.encoder, x.shape[1], member.encoder),
                x,
                edge_index,
                sources,
                member.training,
                seed=member_seed(options.seed, number),
                on_epoch=_counting(advance),
                checkpoints=options.checkpoints.inside(f"member-{number}"),
                watch=watch,
                loss=options.loss,
            )
        trim_heap()
        verdict = verdict if watch is None else watch.best
        encoders.append(encoder)
        parts.append(trained.embedding)
        losses.append(trained.losses)
        epochs = watch.epochs if watch is not None and watch.epochs else member.training.epochs
        members.append(member.trained(epochs, found.trust))
    # The random attributes of a graph without any are nothing to keep.
    attributes = plan.attributes if training.has_attributes else 0.0
    joined = EncoderEnsemble(
        encoders, [member.weight for member in members], attributes, found.trust
    )
    with torch.no_grad():
        embedding = joined.join(parts, x, edge_index)
    clear_tensor_caches(joined)  # the data are no part of the model
    del parts
    trim_heap()
    return FittedEmbedding(
        found.sampler,
        found.positives,
        EnsembleConfig(tuple(members), attributes),
        joined.eval(),
        embedding,
        tuple(losses),
        verdict,
    )


def with_downweighted_encoder(
    fitted: FittedEmbedding, num_attributes: int, doubt: float
) -> FittedEmbedding:
    """The fit with its trust in what was learned multiplied by `doubt`.

    Its embedding is what the encoder would say, to rounding: what was learned is shortened, and no
    member embeds once more.
    """
    encoder = fitted.encoder.trusting(doubt * float(fitted.encoder.trust))
    embedding = fitted.embedding.clone()
    learned = embedding.shape[1] - len(HOPS) * num_attributes
    embedding[:, :learned] *= doubt**0.5
    return replace(fitted, encoder=encoder, embedding=embedding)


def embedded_again(
    fitted: FittedEmbedding, training: Graph, device: torch.device
) -> FittedEmbedding:
    """The fit with the embedding that its encoder gives, to the last bit."""
    embedding = embed(fitted.encoder, *encoder_inputs(training, device), fitted.plan.batch)
    clear_tensor_caches(fitted.encoder)  # the data are no part of the model
    return replace(fitted, embedding=embedding)


def member_seed(seed: int, number: int) -> int:
    """The seed of a plan's member: the first has the fit's own, the others seeds drawn from it.

    Torch reads no more than 32 bits of a seed on a CPU.
    """
    if number == 0:
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _counting(advance: Callable[[int], None]) -> Callable[[int, float], None]:
    """Tells progress how many epochs are new; a resumed training starts with more than one."""
    done = 0

    def on_epoch(epoch: int, loss: float) -> None:
        nonlocal done
        advance(epoch - done)
        done = epoch

    return on_epoch
