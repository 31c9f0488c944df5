"""XGSampler against XGBoost on the same similarities: learning, and scoring all pairs.

Both get the nine relations of 4,000 labelled nodes of a planted graph (16 million pairs), held in
memory. XGBoost is the stock library: stumps (max_depth=1), nine rounds, histograms, the same number
of threads. XGSampler finds its thresholds, counts the patterns, fits the stumps and scores.

    python benchmarks/sampler_vs_xgboost.py [--nodes 4000] [--threads 2] [--repeats 3]

First it checks that both rank alike where they must: on one relation whose bits are the only
feature, XGBoost's stump and ours have the same two leaves in the same order.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch
import xgboost as xgb

from xtcl.graph.datasets.synthetic import block_model
from xtcl.lab.methods.naive_xgboost import boost, pair_table
from xtcl.relations.registry import resolve_relations
from xtcl.relations.rows import encode, looked_up
from xtcl.relations.thresholds import levels_above, thresholds
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import LabelledPairs
from xtcl.sampling.patterns import PatternCounter, margin_table, num_patterns, pattern_keys
from xtcl.sampling.stumps import Stumps, fit_stumps, precision, prior_log_odds, training_order

QUANTILES = (0.99,)
BLOCK = 256


def similarities(nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The nine relations of a planted graph [9, V, V], and which pairs have the same class."""
    graph = block_model(nodes, num_classes=7, num_attributes=128, seed=0)
    assert graph.labels is not None
    view = TrainingView.of(graph, np.arange(0, nodes, 2))
    every_node = torch.arange(nodes)
    rows = [relation.on(view)(every_node) for relation in resolve_relations("paper")]
    labels = torch.from_numpy(graph.labels.copy())
    return torch.stack(rows), labels[:, None] == labels


def learn(values: torch.Tensor, alike: torch.Tensor) -> tuple[Stumps, torch.Tensor]:
    """Thresholds, patterns, counts and stumps; also the thresholds [9, V, 1], needed to score."""
    relations, count, _ = values.shape
    eta = torch.empty(relations, count, len(QUANTILES))
    patterns = num_patterns(relations, len(QUANTILES))
    tally = PatternCounter(patterns, 1, values.device)
    for nodes in torch.split(torch.arange(count), BLOCK):
        rows = slice(int(nodes[0]), int(nodes[-1]) + 1)
        levels = []
        for relation in range(relations):  # thresholds and levels while the rows are in the cache
            similarity = values[relation, rows]
            eta[relation, rows] = thresholds(similarity, nodes, QUANTILES)
            levels.append(levels_above(similarity, nodes, eta[relation, rows]))
        codes, own = encode(levels, relations, len(QUANTILES)), alike[rows]
        row, column = torch.nonzero(codes, as_tuple=True)
        matches = int(own.sum()) - len(nodes)  # a node is not paired with itself
        totals = torch.tensor([[len(nodes) * (count - 1) - matches, matches]])
        answers = LabelledPairs(own[row, column], nodes[row] != column, totals)
        one = torch.zeros_like(row)  # for the totals all queries are one
        key = pattern_keys(codes[row, column], one, answers, one[:1], patterns)
        tally.add(key, totals, one[:1])
    total = tally.counts()
    digits = total.levels(relations, len(QUANTILES))
    order = training_order(*precision(digits, total.counts, len(QUANTILES)))
    base = prior_log_odds(total.counts)
    stumps = fit_stumps(digits, total.counts, num_levels=2, order=order, base=base, sweeps=30)
    return stumps, eta


def codes_of(block: torch.Tensor, nodes: torch.Tensor, eta: torch.Tensor) -> torch.Tensor:
    """The pattern code of every pair of a block [9, b, V]."""
    found = (levels_above(s, nodes, e) for s, e in zip(block, eta, strict=True))
    return encode(found, len(block), len(QUANTILES))


def score(values: torch.Tensor, stumps: Stumps, eta: torch.Tensor) -> torch.Tensor:
    """f_u(v) of all pairs, by looking up each pattern's probability."""
    chance = torch.sigmoid(torch.from_numpy(margin_table(stumps)).float())
    scores = torch.empty(values.shape[1:])
    for nodes in torch.split(torch.arange(values.shape[1]), BLOCK):
        rows = slice(int(nodes[0]), int(nodes[-1]) + 1)
        scores[rows] = looked_up(chance, codes_of(values[:, rows], nodes, eta[:, rows]))
    return scores


def xgboost_learn(values: np.ndarray, alike: np.ndarray, threads: int) -> tuple[xgb.Booster, float]:
    """XGBoost's own training, its data preparation included; also the seconds of that."""
    start = time.perf_counter()
    table = pair_table(values, alike, threads)
    prepared = time.perf_counter() - start
    return boost(table, threads), prepared


def check_agreement() -> None:
    """On a single 0/1 relation both must give the same two leaves, and so the same ranking."""
    rng = np.random.default_rng(0)
    bit = (rng.random(20_000) < 0.1).astype(np.int64)
    alike = (rng.random(20_000) < 0.2 + 0.5 * bit).astype(np.int64)
    counts = np.array([[np.sum((bit == b) & (alike == a)) for a in (0, 1)] for b in (0, 1)])
    ours = fit_stumps(np.array([[0], [1]]), counts, num_levels=2, order=[0])
    settings = {
        "objective": "binary:logistic",
        "max_depth": 1,
        "eta": 1.0,
        "lambda": 1.0,
        "base_score": 0.5,
        "min_child_weight": 0,
    }
    booster = xgb.train(settings, xgb.DMatrix(bit[:, None], alike), num_boost_round=1)
    theirs = booster.predict(xgb.DMatrix(np.array([[0], [1]])), output_margin=True)
    if not np.allclose(theirs, ours.margins(np.array([[0], [1]])), atol=1e-5):
        raise SystemExit(f"XGBoost and XGSampler disagree: {theirs} and {ours.weights}")


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """The shortest of several timings."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    """Time both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    check_agreement()
    values, alike = similarities(chosen.nodes)
    flat, target = values.reshape(len(values), -1).T.contiguous().numpy(), alike.ravel().numpy()
    booster, prepared = xgboost_learn(flat, target, chosen.threads)
    stumps, eta = learn(values, alike)
    found = {
        "pairs": chosen.nodes**2,
        "threads": chosen.threads,
        "xgsampler_learn": best_of(chosen.repeats, lambda: learn(values, alike)),
        "xgsampler_score": best_of(chosen.repeats, lambda: score(values, stumps, eta)),
        "xgboost_learn": best_of(
            chosen.repeats, lambda: xgboost_learn(flat, target, chosen.threads)
        ),
        "xgboost_prepare": prepared,
        "xgboost_score": best_of(chosen.repeats, lambda: booster.inplace_predict(flat)),
    }
    found["ratio"] = (found["xgboost_learn"] + found["xgboost_score"]) / (
        found["xgsampler_learn"] + found["xgsampler_score"]
    )
    print(json.dumps({k: round(v, 3) for k, v in found.items()}))
    print(
        f"XGSampler learns and scores {found['pairs']:,} pairs "
        f"{found['ratio']:.1f} times as fast as XGBoost."
    )


if __name__ == "__main__":
    main()
