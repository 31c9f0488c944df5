"""A semantic relation: a similarity s_r(u, v) in [0, 1], computed a few rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.code_digest import user_code_digest
from xtcl.errors import UsageError, XTCLError, first_line, is_out_of_memory
from xtcl.relations.view import LABELS, TrainingView
from xtcl.renamed import warn_renamed

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import ArrayLike

    from xtcl.relations.topk import TopK, TopKSearch

Rows = Callable[[Tensor], Tensor]
"""Takes node indices [b], returns their similarities to all nodes, float32 [b, V]."""

PairFunction = Callable[[Tensor, Tensor], Tensor]
"""Takes nodes u and v, each [m], returns s(u, v), float32 [m]."""

PAIRS_PER_GPU_CALL = 2**26
"""Pairs of one call on a GPU where rows are computed one by one: 256 MB of similarities."""

VALUES_IN_CACHE = 2**20
"""Numbers of an array that a CPU reads many times: three such arrays stay in its cache."""

_ROUNDING = 1e-6
"""How far rounding may carry a similarity above 1; it is then set to 1."""

_TIED_TO_PREPARE = (
    "topk",
    "factors",
    "of_pairs",
    "in_topk_mode",
    "timed_as",
    "in_range",
    "row_by_row",
    "by_threads",
    "by_columns",
)
"""Members of a relation that describe the rows of its `prepare`, and of no other."""


def tile_rows(device: torch.device) -> int:
    """Rows to compute at once: enough to keep the device busy, few enough for its cache."""
    return 64 if device.type == "cpu" else 1024


class Relation(ABC):
    """One graph signal. A subclass is a frozen dataclass whose fields are its parameters.

    `prepare` computes once what all rows share and returns a function from nodes to rows. It gets a
    view of the training data, so it cannot use what the view does not hold.

    `topk`, `factors` and `of_pairs` are optional fast paths of top-k mode. Without them whole rows
    are computed. They must agree with the rows. So a subclass that overrides `prepare` alone does
    not inherit them, nor what is declared about the rows (`row_by_row`, ...). It inherits
    them where it leaves `prepare` as it is.

    Similarities are checked for their values, and rows are neither cached nor stored, unless the
    class declares `in_range` and `cacheable`.

    `matrix`, `rows`, `pairs` and `thresholds` give NumPy arrays for a graph: a `Graph`, a PyG
    `Data`, a NetworkX graph or a SciPy adjacency matrix. **Relations that read labels read all
    labels of the graph**, also those of test nodes, unless `labelled` names the nodes (or is a mask
    of those) whose labels may be read. A `TrainingView` in the place of a graph has exactly what
    may be read, and keeps what many calls share.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reads: ClassVar[frozenset[str]]
    cacheable: ClassVar[bool] = False
    """Whether the fields, the code of the class and what it `reads` of a view decide all rows. Only
    then are they cached and stored. Each class declares it for itself."""
    in_range: ClassVar[bool] = False
    """Whether similarities are guaranteed to be float32 in [0, 1]; they are not checked then."""
    row_by_row: ClassVar[bool] = False
    """Whether a row is the same to the last bit whatever other rows are computed with it."""
    by_threads: ClassVar[bool] = False
    """Whether the threads of a CPU share the nodes of a call. Rows are then made row by row."""
    by_columns: ClassVar[bool] = False
    """Whether b rows are made as b columns [V, b], in many passes over all of them."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Drop what the parents declared about rows that this class does not have."""
        super().__init_subclass__(**options)
        if "cacheable" not in vars(cls):
            cls.cacheable = False

        def place(member: str) -> int:
            """How far up the class is that defines the member."""
            return next(i for i, kind in enumerate(cls.__mro__) if member in vars(kind))

        for member in _TIED_TO_PREPARE:
            if place(member) > place("prepare"):
                setattr(cls, member, vars(Relation)[member])

    @abstractmethod
    def prepare(self, view: TrainingView) -> Rows:
        """The function that computes rows of similarities for `view`."""

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch | None:
        """A search for the best of each row that does not compute whole rows.

        It takes nodes [b] and returns `SparseRows` with, at least, the `top.k` most similar nodes
        of each. Where `top.full` is set the search must also find all that whole rows have, to the
        last bit. None, the default: whole rows are computed.
        """
        return None

    def factors(self, view: TrainingView, top: TopK | None = None) -> Tensor | None:
        """Factors [V, D] whose cosines, with negative ones set to 0, are the similarities.

        `top` is given in top-k mode, where they may be made from short lists, too. None, the
        default: there are no factors.
        """
        return None

    def of_pairs(self, view: TrainingView) -> PairFunction | None:
        """A function for s(u, v) of single pairs. None, the default: rows are computed for them."""
        return None

    def in_topk_mode(self) -> Relation:
        """The relation whose rows stand for these in top-k mode: the same order for less work."""
        return self

    def timed_as(self) -> tuple[Relation, Relation] | None:
        """Two relations to time in place of this one, where `prepare` takes too long to try.

        Of the first, `prepare` computes the rows of all nodes. The second has rows that take as
        long as those of this relation. None, the default: the relation itself is timed.
        """
        return None

    @property
    def may_use_index(self) -> bool:
        """Whether an index may be searched in top-k mode: where there are `factors`."""
        # Not by a call: factors made from short lists cost a search.
        return type(self).factors is not Relation.factors

    def matrix(
        self, graph: Any, *, quantile: float | None = None, labelled: ArrayLike | None = None
    ) -> np.ndarray | sp.csr_array:
        """All similarities of a graph, float32 [V, V]. Of label relations see the class.

        With a `quantile`, such as 0.99, a SciPy CSR array of the pairs that are above: s(u, v) is
        at least the threshold of the row of u, and greater than 0, and v is not u. It is computed
        in blocks, without an array of V x V numbers.
        """
        from xtcl.relations.arrays import similarity_matrix

        return similarity_matrix(self, graph, quantile, labelled)

    def rows(
        self, graph: Any, nodes: ArrayLike, *, labelled: ArrayLike | None = None
    ) -> np.ndarray:
        """Similarities of `nodes` [b] to all nodes of a graph, float32 [b, V]."""
        from xtcl.relations.arrays import similarity_rows

        return similarity_rows(self, graph, nodes, labelled)

    def pairs(
        self, graph: Any, pairs: ArrayLike, *, labelled: ArrayLike | None = None
    ) -> np.ndarray:
        """s(u, v) of the pairs [2, n] of nodes of a graph, float32 [n]."""
        from xtcl.relations.arrays import similarities_of_pairs

        return similarities_of_pairs(self, graph, pairs, labelled)

    def thresholds(
        self,
        graph: Any,
        nodes: ArrayLike | None = None,
        quantile: float = 0.99,
        *,
        labelled: ArrayLike | None = None,
    ) -> np.ndarray:
        """The threshold of the row of each of `nodes`, by default of all: float32 [b].

        A pair is above where its similarity is at least the threshold, and greater than 0.
        """
        from xtcl.relations.arrays import thresholds_of_rows

        return thresholds_of_rows(self, graph, nodes, quantile, labelled)

    def content_digest(self) -> str | None:
        """Hash of what decides the rows beside the fields: the user's code, or the data it is of.

        None where it cannot be known, such as code without a source file. Such rows are not stored.
        """
        return user_code_digest(type(self))

    @property
    def reads_labels(self) -> bool:
        """Whether it depends on labels."""
        return LABELS in self.reads

    @property
    def shared_by_folds(self) -> bool:
        """Whether it is the same for all views that differ in labels only."""
        return self.cacheable and not self.reads_labels

    @property
    def foreign(self) -> bool:
        """The old form of `not cacheable`."""
        warn_renamed("Relation.foreign", "not Relation.cacheable")
        return not self.cacheable

    @property
    def label_free(self) -> bool:
        """The old name of `shared_by_folds`."""
        warn_renamed("Relation.label_free", "Relation.shared_by_folds")
        return self.shared_by_folds

    def on(self, view: TrainingView) -> SimilarityRows:
        """Bind the relation to `view`: its rows."""
        if self.shared_by_folds:
            compute = view.cached(self, lambda: self.prepare(view), self.reads)
        else:
            compute = self.prepare(view)
        return SimilarityRows(
            compute,
            view.device,
            self.name,
            view.num_nodes,
            not self.in_range,
            self.row_by_row,
            self.by_threads,
            self.by_columns,
        )

    def pairs_on(self, view: TrainingView) -> PairFunction | None:
        """Bind `of_pairs` to `view`, with a check of its values where these are not `in_range`."""
        compute = self.of_pairs(view)
        if compute is None or self.in_range:
            return compute

        def checked(u: Tensor, v: Tensor) -> Tensor:
            return check_similarities(self.name, compute(u, v), u, v)

        return checked


def check_similarities(name: str, found: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Similarities of the pairs (u, v), float32, or an error that names one out of range.

    All three have one shape.
    """
    wrong = ~((found >= 0) & (found <= 1 + _ROUNDING))  # NaN is neither
    if wrong.any():
        first = tuple(wrong.nonzero()[0].tolist())
        raise UsageError(
            f"Relation '{name}' must compute similarities in [0, 1], but nodes "
            f"{int(u[first])} and {int(v[first])} have {found[first].item():.7g}: scale it."
        )
    return found.detach().clamp(max=1).to(u.device, torch.float32)


@dataclass(frozen=True)
class SimilarityRows:
    """Rows of one relation, computed in tiles of a fixed height.

    A matrix product may round differently when its shape changes, and a last bit decides whether a
    pair at the threshold is above it. So every call of `compute` gets the same number of nodes, the
    last tile filled up with repetitions. A row is then the same whatever nodes it is computed with.
    Rows that are made `row_by_row` are the same in any case. A GPU makes many more of those in a
    call, because a call takes some hundred microseconds however few they are. Threads that share
    the nodes of a call get a tile each.

    The kind and shape of what a call returns are checked. With `check_values` so is its range,
    since a similarity outside [0, 1] would give wrong results without an error.
    """

    compute: Rows
    device: torch.device
    name: str = "relation"
    num_nodes: int | None = None
    check_values: bool = False
    row_by_row: bool = False
    by_threads: bool = False
    by_columns: bool = False

    @property
    def tile(self) -> int:
        """Rows per call of `compute`, except for those made row by row."""
        usual = tile_rows(self.device)
        if not self.by_columns or self.device.type != "cpu":
            return usual
        half = usual // 2
        return half if half * (self.num_nodes or 1) <= VALUES_IN_CACHE else half // 2

    def __call__(self, nodes: Tensor) -> Tensor:
        """Similarities [b, V] of `nodes` to all nodes."""
        tiles = [rows for _, rows in self.tiles(nodes)]
        return tiles[0] if len(tiles) == 1 else torch.cat(tiles)

    def tiles(self, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The same, a few of the `nodes` at a time, each time with those few."""
        height, compute = self.tile, self._tile
        if self.device.type != "cpu" and self.row_by_row:
            enough = PAIRS_PER_GPU_CALL // (self.num_nodes or 1)
            height, compute = max(height, enough), self._checked
        elif self.device.type == "cpu" and self.by_threads:
            enough = VALUES_IN_CACHE // (self.num_nodes or 1)
            height = max(height * torch.get_num_threads(), enough)
            compute = self._checked
        for part in torch.split(nodes.to(self.device), height):
            yield part, compute(part).contiguous()

    def _computed(self, nodes: Tensor) -> object:
        """What `compute` returns, an array as a tensor; an error of the user's code says whose."""
        if not self.check_values:
            return self.compute(nodes)
        try:
            found: object = self.compute(nodes)
        except XTCLError:
            raise
        except Exception as error:  # the user's code may raise anything
            if is_out_of_memory(error):
                raise
            raise UsageError(
                f"The rows of relation '{self.name}' cannot be computed: its function raises "
                f"{type(error).__name__}: {first_line(error)}. It is given nodes as a tensor: for "
                "NumPy and SciPy take nodes.cpu().numpy()."
            ) from error
        if isinstance(found, np.ndarray) and found.dtype.kind == "f":
            return torch.from_numpy(np.ascontiguousarray(found)).to(self.device)
        return found

    def _tile(self, nodes: Tensor) -> Tensor:
        missing = self.tile - len(nodes)
        if missing == 0:
            return self._checked(nodes)
        return self._checked(torch.cat([nodes, nodes[:1].expand(missing)]))[: len(nodes)]

    def _checked(self, nodes: Tensor) -> Tensor:
        found = self._computed(nodes)
        if not isinstance(found, Tensor) or not found.is_floating_point():
            kind = found.dtype if isinstance(found, Tensor) else type(found).__name__
            raise UsageError(
                f"Relation '{self.name}' must compute a tensor or an array of floats, not {kind}: "
                "end it with .float(), .astype(float) for an array, .toarray() for a SciPy matrix."
            )
        width = found.shape[-1] if self.num_nodes is None and found.ndim else self.num_nodes
        if width is None or found.shape != (len(nodes), width):
            raise UsageError(
                f"Relation '{self.name}' must compute one row per given node and one column "
                f"per node of the graph, here {[len(nodes), width]}, but gave {list(found.shape)}."
            )
        if not self.check_values:
            return found
        u, v = torch.meshgrid(nodes, torch.arange(width, device=nodes.device), indexing="ij")
        return check_similarities(self.name, found, u, v)
