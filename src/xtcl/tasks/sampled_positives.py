"""The sampler and the positives of a fit: what comes before training."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig
from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.nn.ensemble import LikelyLinks
from xtcl.relations.view import TrainingView
from xtcl.sampling.likely_graph import find_likely_links
from xtcl.sampling.strategies import (
    PositiveSource,
    PositiveStrategy,
    PositiveTable,
    checked_table,
    make_strategy,
    unlearned_sampler,
)
from xtcl.sampling.xgsampler import XGSampler, counts_to_arrays, sampler_from_counts
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData


class SampledPositives(NamedTuple):
    """The fitted sampler, the table [V, B] of positives, and how far they are trusted."""

    sampler: XGSampler
    positives: np.ndarray
    trust: float = 1.0
    of_strategies: Mapping[str, np.ndarray] = MappingProxyType({})
    """The tables of all strategies, by name."""
    likely: LikelyLinks | None = None
    """Where an encoder passes messages over them."""


def fit_sampler(training: Graph, task: Task, config: FitConfig, options: FitOptions) -> XGSampler:
    """Fit the weights of the relations on `training`."""
    view, sampler = _view(training, options), _sampler(config, options)
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


def _view(training: Graph, options: FitOptions) -> TrainingView:
    return TrainingView.of(training, TrainingData(training).labelled, options.device)


def _sampler(config: FitConfig, options: FitOptions) -> XGSampler:
    return XGSampler(
        options.relations,
        config.sampler,
        block_rows=options.block_rows,
        random_state=options.seed,
        store=options.store,
    )


def sample_positives(
    training: Graph,
    task: Task,
    config: FitConfig,
    options: FitOptions,
    ensemble: EnsembleConfig | None = None,
    trained: Container[int] = (),
    *,
    is_part: bool = False,
) -> SampledPositives:
    """Fit the sampler, and take every node's positives by the strategy of the fit.

    Encoders of `ensemble` that name a strategy of their own get its positives, too, unless they are
    `trained` already, and those that pass messages over likely links get these. On a part of the
    training data, only what these encoders need is made.
    """
    encoders = () if ensemble is None else ensemble.encoders
    missing = [each for number, each in enumerate(encoders) if number not in trained]
    usual = encoder_strategy(EncoderConfig(), config, options)
    strategies = [encoder_strategy(each, config, options) for each in missing]
    strategies = strategies if is_part else [usual, *strategies]
    needs_likely = any(each.messages == "likely" for each in encoders)
    if needs_likely or any(each.learns for each in strategies) or not is_part:
        sampler = fit_sampler(training, task, config, options)
    else:
        sampler = unlearned_sampler(_view(training, options), _sampler(config, options))
    tables: dict[str, PositiveTable] = {}
    for strategy in strategies:
        if strategy.name not in tables:
            key = "positives" if strategy.name == usual.name else f"positives-{strategy.name}"
            tables[strategy.name] = _positives_by(
                strategy, key, training.name, sampler, task, config, options
            )
    likely = _likely_links(sampler, options) if needs_likely else None
    if not options.keep_relations:
        sampler.forget_relations()
    own = tables.get(usual.name, PositiveTable(np.zeros((training.num_nodes, 0), dtype=np.int64)))
    of_strategies = {name: table.nodes for name, table in tables.items()}
    # Hidden labels weigh the encoders, and a trust that reads labels would tell of hidden ones.
    trust = 1.0 if config.hidden_parts else own.trust
    return SampledPositives(sampler, own.nodes, trust, of_strategies, likely)


def encoder_strategy(
    encoder: EncoderConfig, config: FitConfig, options: FitOptions
) -> PositiveStrategy:
    """The strategy of an encoder: that of the fit, unless it names another."""
    usual = options.strategy or make_strategy(config.strategy)
    return usual if encoder.positives in (None, usual.name) else make_strategy(encoder.positives)


def _likely_links(sampler: XGSampler, options: FitOptions) -> LikelyLinks:
    """The likely links, or what the checkpoint has of them."""
    num_nodes = sampler.view_.num_nodes
    saved = options.checkpoints.load("likely-links")
    if saved is None:
        with options.progress.stage("finding likely links", num_nodes) as advance:
            found = find_likely_links(
                sampler,
                progress=advance,
                checkpoints=options.checkpoints.subfolder("likely"),
            )
        saved = {"links": torch.from_numpy(found)}
        options.checkpoints.save("likely-links", saved)
    return LikelyLinks(saved["links"].to(options.device), num_nodes)


def _positives_by(
    strategy: PositiveStrategy,
    key: str,
    graph_name: str,
    sampler: XGSampler,
    task: Task,
    config: FitConfig,
    options: FitOptions,
) -> PositiveTable:
    """The positives by one strategy, or what the checkpoint has under `key`."""
    saved = options.checkpoints.load(key)
    if saved is not None:
        return PositiveTable(saved["nodes"].numpy(), float(saved["trust"]))
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
        table = checked_table(strategy, source, config.positives)
    # Known links are enough for links; where the sampler finds nothing, trust is low.
    if not ((table.nodes >= 0).any() or config.num_links_per_step or strategy.learns):
        raise DataError(
            f"The strategy '{strategy.name}' finds no positive for any node of graph "
            f"'{graph_name}': give more labels or links, or attributes that say more."
        )
    trust = torch.tensor(table.trust, dtype=torch.float64)
    options.checkpoints.save(key, {"nodes": torch.from_numpy(table.nodes), "trust": trust})
    return table
