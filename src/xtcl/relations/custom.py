"""Relations from a matrix or from a function, without a class for each."""

from __future__ import annotations

import hashlib
import inspect
import json
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.code_digest import describe_value, user_code_digest
from xtcl.errors import DataError, UsageError
from xtcl.graph.validation import to_host
from xtcl.relations.relation import PairFunction, Relation, Rows, check_similarities
from xtcl.relations.sparse import dense_rows, entries_of_pairs, to_device
from xtcl.relations.topk import TopK, TopKSearch, topk_of_matrix
from xtcl.relations.view import LINKS, TrainingView

TopKFunction = Callable[[TrainingView, TopK], TopKSearch | None]
"""Takes a view and what to keep of a row, returns a search, as `Relation.topk` does."""


class _CustomRelation(Relation):
    """A relation whose name, title and kinds of data are given when it is made.

    It has no fields, because its matrix or function is no parameter. A saved run keeps its name
    only, so it has to be registered before the run is loaded.
    """

    name: str  # type: ignore[misc]
    title: str  # type: ignore[misc]
    reads: frozenset[str]  # type: ignore[misc]
    cacheable: bool  # type: ignore[misc]

    def __init__(self, name: str, title: str | None, reads: Iterable[str]) -> None:
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"A relation cannot be called {name!r}: give name= a string.")
        if not isinstance(reads, Iterable):
            raise UsageError(
                f"reads={reads!r} of relation '{name}' must be names, such as ['links']."
            )
        self.name, self.title = name, title or name
        self.reads = frozenset([reads] if isinstance(reads, str) else reads)

    @abstractmethod
    def _identity(self) -> tuple[object, ...]:
        """What is equal for equal relations, and only for these."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"


@dataclass(init=False, eq=False, repr=False)
class MatrixRelation(_CustomRelation):
    r"""The similarity of two nodes is their entry in a matrix.

    .. math:: s(u, v) = S[u, v]

    Range: that of the matrix, which must be in [0, 1]. Symmetric if the matrix is.
    Cost: O(nnz) memory for a sparse matrix, O(b V) for b rows; the lists of top-k mode and single
    pairs are read from its entries. O(V^2) memory for a dense one.

    `similarities` is a SciPy sparse matrix or a dense array [V, V], with a row and a column for
    each node in the order of the graph. It is copied as float32. Relations with the same name and
    equal matrices are equal, and share what is cached and stored.

    The matrix is the same in all folds of cross-fitting. So make it neither from labels nor from
    the links that are to be predicted.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(MatrixRelation(np.eye(4)[::-1], name="mirror"), path_of_four(), [0])
    [[0.0, 0.0, 0.0, 1.0]]
    """

    cacheable = True  # type: ignore[misc]
    in_range = True  # checked when it is made
    row_by_row = True

    def __init__(self, similarities: Any, name: str, title: str | None = None) -> None:
        super().__init__(name, title, ())
        self.similarities = _checked_matrix(name, similarities)

    def __deepcopy__(self, memo: object) -> MatrixRelation:
        return self  # nothing changes its arrays

    def _identity(self) -> tuple[object, ...]:
        return self.name, self.title, self._matrix_digest

    @cached_property
    def _matrix_digest(self) -> str:
        return _digest_of(describe_value(self.similarities))

    def content_digest(self) -> str | None:
        """Hash of the matrix, and of the code of a subclass."""
        code = super().content_digest()
        return None if code is None else _digest_of([code, self._matrix_digest])

    def _matrix_for(self, view: TrainingView) -> np.ndarray | sp.csr_array:
        """The matrix, if it has a row for each node."""
        rows = self.similarities.shape[0]
        if rows != view.num_nodes:
            raise DataError(
                f"Relation '{self.name}' is a matrix of {rows} x {rows} similarities, but the "
                f"graph has {view.num_nodes} nodes: give a row and a column for each node."
            )
        return self.similarities

    def prepare(self, view: TrainingView) -> Rows:
        """Rows of the matrix."""
        matrix = self._matrix_for(view)
        if isinstance(matrix, np.ndarray):
            dense = torch.from_numpy(matrix).to(view.device)
            return lambda nodes: dense[nodes]
        entries = to_device(matrix, view.device)
        return lambda nodes: dense_rows(entries, nodes)

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch | None:
        """Exact, from the entries of a sparse matrix. Cost: O(n log n) for a row of n entries."""
        matrix = self._matrix_for(view)
        if isinstance(matrix, np.ndarray):
            return None
        return topk_of_matrix(matrix, top, view)

    def of_pairs(self, view: TrainingView) -> PairFunction:
        """Entries of the matrix. Cost: O(log nnz) for a pair of a sparse one."""
        matrix = self._matrix_for(view)
        if isinstance(matrix, np.ndarray):
            dense = torch.from_numpy(matrix).to(view.device)
            return lambda u, v: dense[u, v]
        return entries_of_pairs(matrix, view.device)


def _checked_matrix(name: str, given: Any) -> np.ndarray | sp.csr_array:
    """A copy as float32, canonical where it is sparse; refused if it is not in [0, 1]."""
    found = to_host(given, f"The similarities of relation '{name}'")
    if found.ndim != 2 or found.shape[0] != found.shape[1] or found.dtype.kind not in "biuf":
        raise DataError(
            f"The similarities of relation '{name}' must be numbers [V, V], a row and a column for "
            f"each node, not {found.dtype} {list(found.shape)}."
        )
    if isinstance(found, np.ndarray):
        u = torch.arange(len(found))[:, None].expand(found.shape)
        return _in_range(name, found, u, u.T)
    entries = sp.csr_array(found, copy=True)
    entries.sum_duplicates()
    row = np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
    u, v = torch.from_numpy(row), torch.from_numpy(entries.indices)
    matrix = sp.csr_array(
        (_in_range(name, entries.data, u, v), entries.indices, entries.indptr), shape=entries.shape
    )
    matrix.eliminate_zeros()
    return matrix


def _in_range(name: str, values: np.ndarray, u: Tensor, v: Tensor) -> np.ndarray:
    """A float32 copy of the similarities of the pairs (u, v)."""
    numbers = torch.tensor(values.astype(np.float64 if values.dtype.kind == "f" else np.float32))
    return np.asarray(check_similarities(name, numbers, u, v))


@dataclass(init=False, eq=False, repr=False)
class FunctionRelation(_CustomRelation):
    r"""The similarity of two nodes is the value of a function.

    .. math:: s(u, v) = \text{function}(view)(u)[v]

    Range: [0, 1], which is checked. Cost: that of the function.

    `function` takes a `TrainingView` and returns a function from nodes [b] to similarities [b, V].
    `reads` names all that it looks at of the view ("attributes", "links", "labels"), and so decides
    whether the relation can be computed from what the graph has. Without it links are assumed.

    A relation with `reads` is cached and stored: its rows are the same for views that agree in what
    it reads. So `reads` must be complete: a function that looks at the labels without saying so
    would give the rows of one fold to another. `cacheable=False` turns this off. The names of
    stored files contain a hash of its code, and of the variables outside that it reads. Without
    source it is not stored.

    `topk` is an optional fast path of top-k mode: a function of a view and a `TopK` that returns a
    search, as `Relation.topk` does.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> def same_parity(view):
    ...     return lambda nodes: (nodes[:, None] % 2 == torch.arange(view.num_nodes) % 2).float()
    >>> rows(FunctionRelation(same_parity, name="same-parity"), path_of_four(), [0])
    [[1.0, 0.0, 1.0, 0.0]]
    """

    def __init__(
        self,
        function: Callable[[TrainingView], Rows],
        name: str,
        title: str | None = None,
        *,
        reads: Iterable[str] | None = None,
        topk: TopKFunction | None = None,
        cacheable: bool | None = None,
    ) -> None:
        super().__init__(name, title, (LINKS,) if reads is None else reads)
        _check_takes(function, 1, f"The function of relation '{name}'", "a TrainingView")
        if topk is not None:
            _check_takes(topk, 2, f"topk= of relation '{name}'", "a TrainingView and a TopK")
        self.function, self.topk_function = function, topk
        self.cacheable = reads is not None if cacheable is None else cacheable
        self.__doc__ = function.__doc__

    def __copy__(self) -> FunctionRelation:
        return self  # nothing changes it

    def __deepcopy__(self, memo: object) -> FunctionRelation:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Workers of joblib get it by cloudpickle, which writes any function, with protocol 5.
        local = [each for each in self.functions if "<" in getattr(each, "__qualname__", "")]
        if local and protocol < 5:
            raise UsageError(
                f"Relation '{self.name}' cannot be pickled: of a function pickle keeps the name "
                "alone, and this one is a lambda, or is inside another function. Define it with "
                "def at the top of a module, or keep the model with save() and load()."
            )
        return super().__reduce_ex__(protocol)

    def _identity(self) -> tuple[object, ...]:
        return self.name, self.title, self.reads, self.cacheable, *self.functions

    @property
    def functions(self) -> tuple[object, ...]:
        """The function, and that of top-k mode where there is one."""
        given = self.function, self.topk_function
        return tuple(each for each in given if each is not None)

    def content_digest(self) -> str | None:
        """Hash of the code of both functions, and of the variables outside that they read."""
        plain = [each for each in self.functions if isinstance(each, FunctionType)]
        if len(plain) < len(self.functions) or user_code_digest(*plain) is None:
            return None
        return _digest_of([describe_value(each) for each in plain])

    def prepare(self, view: TrainingView) -> Rows:
        """What the function returns."""
        rows = self.function(view)
        _check_takes(rows, 1, f"What the function of relation '{self.name}' returns", "nodes [b]")
        return rows

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch | None:
        """The search of the function for it, if there is one."""
        return None if self.topk_function is None else self.topk_function(view, top)


def _check_takes(function: object, count: int, what: str, arguments: str) -> None:
    """Refuse what cannot be called with `count` arguments."""
    if not callable(function):
        raise UsageError(
            f"{what} is {function!r}, which cannot be called: give a function of {arguments}."
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function in C
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        raise UsageError(f"{what} must take {arguments} ({error}).") from error


def _digest_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
