"""What a relation may look at: attributes, training links and training labels, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.graph.convert import as_graph
from xtcl.graph.validation import Attributes
from xtcl.relations.sparse import CSRGraph, dense_on
from xtcl.renamed import VIEW_MEMBERS, warn_renamed

T = TypeVar("T")


ATTRIBUTES, LINKS, LABELS = "attributes", "links", "labels"


@dataclass(frozen=True, eq=False)
class TrainingView:
    """The training data: all that a relation can read.

    Cross-fitting makes views that hide more: `without_labels` and `without_links` return new views
    and leave this one as it is. `label_free_cache` holds results that do not depend on the labels,
    so views that differ only in labels share it; `attribute_cache` those that depend on the
    attributes only, so all views of a graph share it.
    """

    attributes: Attributes
    adjacency: sp.csr_array
    labels: np.ndarray
    num_classes: int
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    hidden_labels: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    label_free_cache: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    attribute_cache: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle, with empty caches: what is in them is computed again."""
        state = vars(self).items()
        return {name: {} if isinstance(value, dict) else value for name, value in state}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What had the `name` in the last release, with a warning."""
            if name not in VIEW_MEMBERS:
                raise AttributeError(f"'TrainingView' object has no attribute '{name}'")
            new = VIEW_MEMBERS[name]
            warn_renamed(f"TrainingView.{name}", new)
            return getattr(self, new)

    @classmethod
    def of(
        cls,
        graph: Any,
        labelled: np.ndarray | Sequence[int] = (),
        device: torch.device | str = "cpu",
    ) -> TrainingView:
        """View of `graph` with the labels of the nodes `labelled` (or mask) and no others.

        `graph` is a Graph, or what `as_graph` makes one of. By default no label can be read.
        """
        graph = as_graph(graph, warn_masks=False)
        labels = np.full(graph.num_nodes, -1, dtype=np.int64)
        nodes = np.asarray(labelled)
        nodes = np.flatnonzero(nodes) if nodes.dtype == bool else nodes.astype(np.int64)
        if graph.labels is not None:
            labels[nodes] = graph.labels[nodes]
        return cls(
            attributes=graph.attributes,
            adjacency=graph.adjacency,
            labels=labels,
            num_classes=graph.num_classes,
            device=torch.device(device),
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes V."""
        return int(self.adjacency.shape[0])

    @property
    def available(self) -> frozenset[str]:
        """The kinds of data that the view has."""
        present = {
            ATTRIBUTES: self.attributes.shape[1] > 0,
            LINKS: self.adjacency.nnz > 0,
            LABELS: bool((self.labels >= 0).any()),
        }
        return frozenset(kind for kind, there in present.items() if there)

    def one_hot_labels(self) -> np.ndarray:
        """Y of the paper: one row per node, all zero where the label is not for training."""
        known = np.flatnonzero(self.labels >= 0)
        one_hot = np.zeros((self.num_nodes, self.num_classes), dtype=np.float32)
        one_hot[known, self.labels[known]] = 1.0
        return one_hot

    def without_labels(self, nodes: np.ndarray) -> TrainingView:
        """The same view without the labels of `nodes`."""
        labels = self.labels.copy()
        labels[nodes] = -1
        return replace(self, labels=labels, hidden_labels=np.union1d(self.hidden_labels, nodes))

    @property
    def all_labelled(self) -> np.ndarray:
        """The nodes whose labels are known here or were hidden: the same for all folds."""
        return np.union1d(self.hidden_labels, np.flatnonzero(self.labels >= 0))

    @staticmethod
    def adjacency_of(links: np.ndarray, num_nodes: int) -> sp.csr_array:
        """Symmetric 0/1 matrix of undirected `links` [2, n]."""
        both = np.concatenate([links, links[::-1]], axis=1)
        ones = np.ones(both.shape[1], dtype=np.float32)
        adjacency = sp.csr_array((ones, (both[0], both[1])), shape=(num_nodes, num_nodes))
        adjacency.data[:] = 1.0  # a link that is given twice was summed up
        return adjacency

    def without_links(self, links: np.ndarray) -> TrainingView:
        """The same view without the undirected `links` [2, n]."""
        hidden = self.adjacency_of(links, self.num_nodes)
        remaining = sp.csr_array(self.adjacency - self.adjacency.multiply(hidden))
        remaining.eliminate_zeros()
        return replace(self, adjacency=remaining, label_free_cache={})

    def cached(
        self, key: Hashable, compute: Callable[[], T], reads: frozenset[str] = frozenset({LINKS})
    ) -> T:
        """`compute()` the first time, its result afterwards. Not for results that depend on labels.

        `reads` names the kinds of data that the result depends on.
        """
        cache = self.attribute_cache if reads <= {ATTRIBUTES} else self.label_free_cache
        if key not in cache:
            cache[key] = compute()
        result: T = cache[key]
        return result

    def clear_cache(self) -> None:
        """Delete all cached results."""
        self.label_free_cache.clear()
        self.attribute_cache.clear()

    def dense_attributes(self) -> Tensor:
        """The attributes as a float32 matrix on the device."""
        return self.cached(
            "dense attributes",
            lambda: dense_on(self.attributes, self.device),
            frozenset({ATTRIBUTES}),
        )

    def links(self) -> CSRGraph:
        """The adjacency on the device, made once for all searches."""
        return self.cached(
            "links on the device", lambda: CSRGraph.from_scipy(self.adjacency, self.device)
        )
