"""Optuna's study of a search, kept in a file if wanted.

Optuna is an extra: it is imported when a search begins, and not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xtcl.errors import DataError, UsageError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import RDBStorage


def require_optuna() -> None:
    """Refuse to go on without Optuna."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UsageError(
            'Tuning needs Optuna, which is not installed: pip install "xtcl[tune]".'
        ) from None


@contextmanager
def open_study(store: Path | None, search: str) -> Iterator[Study]:
    """A study that maximises; with a `store`, what was found there by the same `search` is in it.

    The store is an SQLite database, which survives being killed at any moment.
    """
    require_optuna()
    from optuna import create_study

    with _quiet(), _storage(store) as storage:
        study = create_study(
            storage=storage, study_name="xtcl", direction="maximize", load_if_exists=True
        )
        if study.user_attrs.get("search", search) != search:
            raise UsageError(
                f"'{store}' holds another search: of another graph, seed or setting, or by another "
                "version. Remove it to search anew."
            )
        study.set_user_attr("search", search)
        yield study


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna's own log down for a while."""
    from optuna import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


@contextmanager
def _storage(store: Path | None) -> Iterator[RDBStorage | None]:
    if store is None:
        yield None
        return
    storage = _opened(store)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _opened(store: Path) -> RDBStorage:
    from optuna.exceptions import OptunaError
    from optuna.storages import RDBStorage
    from sqlalchemy import URL
    from sqlalchemy.exc import SQLAlchemyError

    if not store.parent.is_dir():
        raise UsageError(f"There is no folder '{store.parent}' to keep the search in; make it.")
    address = URL.create("sqlite", database=str(store)).render_as_string()
    try:
        return RDBStorage(address)
    except (SQLAlchemyError, OptunaError, RuntimeError) as broken:
        raise DataError(
            f"'{store}' is no search that can go on ({type(broken).__name__}); remove it to search "
            "anew."
        ) from broken
