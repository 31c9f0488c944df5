"""The embedding of every node, by id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xtcl.answers.answer_file import KINDS, check_file, write_answers
from xtcl.answers.answer_table import AnswerTable
from xtcl.files import atomic_path

EMBEDDING_KINDS = (*KINDS, ".npz")


def embedding_table(names: np.ndarray[Any, Any], embedding: np.ndarray) -> AnswerTable:
    """A row for each node, with the columns z0, z1, ..."""
    numbers = {f"z{at}": column for at, column in enumerate(np.asfortranarray(embedding).T)}
    return AnswerTable({"node": names, **numbers})


def write_embeddings(path: Path, names: np.ndarray[Any, Any], embedding: np.ndarray) -> None:
    """Write the rows as a table, or as the arrays `node` and `embedding` of an npz file."""
    check_file(path, EMBEDDING_KINDS)
    if path.suffix.lower() != ".npz":
        write_answers(path, embedding_table(names, embedding))
        return
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, node=names, embedding=embedding)
