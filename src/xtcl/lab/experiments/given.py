"""What each system of Tables 1 and 2 is given that others are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xtcl.baselines import METHODS, make_method
from xtcl.baselines.method import XTCLGAT, XTCLGCN, Method, XTCLMethod
from xtcl.baselines.supervised import Supervised
from xtcl.config import FIXED_RULES, FitConfig
from xtcl.lab.methods.self_supervised import SelfSupervised
from xtcl.report.charts import DASH, table
from xtcl.tasks import make_task


class Given(NamedTuple):
    """One row: the head, what stands beside the embedding, and what hidden training data decide.

    None is given a validation set. `second_fit`: the head is fitted again, with its own confident
    predictions as labels (nodes). `signals`: the score of a pair counts relations and degrees, too
    (links).
    """

    head: str
    beside: str
    hidden: str
    second_fit: bool = False
    signals: bool = False


REGRESSION = "logistic regression"
CHOSEN_SCORER = "cosine, inner product or weighted product"
TREES = "boosted trees"
OWN = "its own network"

PENALTY = "penalty"
SCORER = "scorer"
TEMPERATURE = "inverse temperature"

_WITHOUT_EMBEDDING = {
    "nodes": {
        "meta-pn": Given(f"{OWN}, its answers smoothed", DASH, DASH),
        "cocos": Given(OWN, DASH, "weight of the second stage"),
        "logistic": Given(REGRESSION, "attributes alone", PENALTY, second_fit=True),
        "propagation": Given(
            REGRESSION, "attributes alone, smoothed", f"smoothing, {PENALTY}", second_fit=True
        ),
        "trees": Given(TREES, "attributes alone", TEMPERATURE),
        "trees-neighbours": Given(
            TREES, "attributes, means over neighbours, degrees, labels around", TEMPERATURE
        ),
    },
    "links": {
        "subgraph": Given(OWN, "counts of common neighbours", DASH),
        "logistic": Given(CHOSEN_SCORER, "attributes alone", SCORER),
        "propagation": Given(CHOSEN_SCORER, "attributes alone, smoothed", f"smoothing, {SCORER}"),
    },
}


def published_method(name: str, task: str) -> Method:
    """The method as in the tables and figures of the paper that are kept here.

    Ours follow the recipe of 2026-11, so that the same command makes the same figures again. What
    the default reaches is in `any-graph`.
    """
    method = make_method(name)
    if isinstance(method, (XTCLGCN, XTCLGAT)):
        method.recipe = make_task(task).named_recipe(FIXED_RULES, method.encoder)
    return method


def given(name: str, task: str) -> Given:
    """What a method of a table is given for a task."""
    method = published_method(name, task)
    if isinstance(method, XTCLMethod):
        return _of_recipe(method.recipe_for(task), task)
    if isinstance(method, SelfSupervised):
        if task == "links":
            return Given(CHOSEN_SCORER, DASH, SCORER)
        return Given(REGRESSION, DASH, PENALTY, second_fit=True)
    if isinstance(method, Supervised) and task == "links":
        scorer = "perceptron" if method.settings[task].perceptron else "inner product"
        return Given(f"{OWN}, {scorer}", DASH, DASH)
    return _WITHOUT_EMBEDDING[task].get(name, Given(OWN, DASH, DASH))


def _of_recipe(recipe: FitConfig, task: str) -> Given:
    beside = any(ensemble.attributes > 0 for ensemble in recipe.ensembles)
    parts = [
        *(["ensemble"] if task == "links" and len(recipe.ensembles) > 1 else []),
        *(["epochs"] if recipe.stop_early else []),
        *(["weight of the learned part"] if recipe.downweight < 1 else []),
        SCORER if task == "links" else PENALTY,
        *(["weights of the signals"] if recipe.signals else []),
    ]
    return Given(
        CHOSEN_SCORER if task == "links" else REGRESSION,
        "attributes, smoothed 0, 1 and 2 times" if beside else DASH,
        ", ".join(parts),
        second_fit=recipe.self_training_threshold < 1,
        signals=recipe.signals,
    )


def given_table(task: str, methods: Sequence[str]) -> str:
    """The rows of `methods`, those that are given the same in one."""
    rows: dict[Given, list[str]] = {}
    for name in methods:
        rows.setdefault(given(name, task), []).append(METHODS[name].title)
    last = "second fit of the head" if task == "nodes" else "relations and degrees in the score"
    return table(
        ["", "head", "beside the embedding", "hidden training data decide", last],
        [
            [
                ", ".join(titles),
                row.head,
                row.beside,
                row.hidden,
                "yes" if (row.second_fit if task == "nodes" else row.signals) else DASH,
            ]
            for row, titles in rows.items()
        ],
    )


def what_each_is_given(task: str, methods: Sequence[str]) -> list[str]:
    """The part of a page that names what is not the same for all."""
    return [
        "## What each system is given",
        "None has a validation set: all training labels train, but where the table says that some "
        "were hidden first. A difference between two rows of the tables above is also one of this "
        "table.",
        given_table(task, methods),
    ]
