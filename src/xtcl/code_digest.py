"""Hashes of code and of data, for names of files that must change when what decides them does.

Two versions of a module have the same hash if they differ in comments, docstrings, formatting or
the name of a file only. It is the same under every Python: it follows from the syntax tree, not
from the compiled code.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn

import xtcl

_COVERED = sys.stdlib_module_names | {"xtcl", "torch"}
"""Packages whose code is hashed by `code_digest`, or whose version stands for it."""


@cache
def code_digest(*packages: str) -> str:
    """Hash of the code of packages or modules, such as "xtcl.relations": 16 hexadecimal digits.

    Where there are no source files, such as in a zip file, it is a hash of xtcl's version. Cost:
    some 30 ms for 1,000 lines, once for each process.
    """
    files = [path for package in packages for path in _source_files(package)]
    if not files:
        return hashlib.sha256(xtcl.__version__.encode()).hexdigest()[:16]
    return source_digest(files)


def source_digest(files: Iterable[Path]) -> str:
    """Hash of the code in `files`, in whatever order and under whatever names."""
    modules = sorted(_module_digest(path.read_text(encoding="utf-8")) for path in files)
    return hashlib.sha256(" ".join(modules).encode()).hexdigest()[:16]


def user_code_digest(*objects: type | FunctionType) -> str | None:
    """Hash of the code of users' functions, and of users' classes with their bases.

    Classes of xtcl, torch and the standard library are left out, so it is the same for all of
    them. None where there is no source, as for a class that was typed into an interpreter. What
    the code calls or reads elsewhere is not in the hash.
    """
    parts = {
        part
        for each in objects
        for part in (each.__mro__ if isinstance(each, type) else (each,))
        if str(part.__module__).partition(".")[0] not in _COVERED
    }
    try:
        digests = sorted(_object_digest(part) for part in parts)
    except (OSError, TypeError):  # inspect raises either where there is no source
        return None
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]


@cache  # a file that is edited later does not change the code that was imported
def _object_digest(part: type | FunctionType) -> str:
    sources = [inspect.getsource(part)]
    if isinstance(part, type):  # inspect may find another class of this name in the same file
        for member in vars(part).values():
            with suppress(OSError):  # dataclass makes methods that have no source
                if isinstance(member, FunctionType):
                    sources.append(inspect.getsource(member))
    try:
        digests = [_module_digest(textwrap.dedent(source)) for source in sources]
    except SyntaxError:  # a lambda comes with the lines around it
        digests = sources
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _source_files(package: str) -> list[Path]:
    """The .py files of a package with its subpackages, or of a module; none where there is none."""
    spec = find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"There is no module '{package}' to hash.", name=package)
    if spec.submodule_search_locations is not None:
        folders = [Path(folder) for folder in spec.submodule_search_locations]
        return [path for folder in folders for path in folder.rglob("*.py")]
    path = Path(spec.origin or "")
    return [path] if path.suffix == ".py" and path.is_file() else []


def _module_digest(source: str) -> str:
    words: list[str] = []
    _spell(ast.parse(source), words)
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def _spell(part: object, words: list[str]) -> None:
    """Append a syntax tree to `words`. Empty fields are left out: newer Pythons have more."""
    if isinstance(part, ast.AST):
        words.append(type(part).__name__)
        for name in part._fields:
            value = getattr(part, name, None)
            if value is not None and value != [] and not _is_own_module(part, name, value):
                words.append(name)
                _spell(value, words)
        words.append(")")
    elif isinstance(part, list):
        for each in part:
            if not _is_docstring(each):
                _spell(each, words)
        words.append("]")
    else:
        words.append(repr(part))


def _is_own_module(part: ast.AST, name: str, value: object) -> bool:
    """Whether it is the file that something of xtcl is imported from, which may be renamed."""
    own = isinstance(part, ast.ImportFrom) and name == "module"
    return own and str(value).split(".")[0] == "xtcl"


def _is_docstring(statement: object) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def describe_code(part: type | FunctionType) -> list[str | None]:
    """Module, name and hash of the code of a class or a function.

    The module is left out for a part of xtcl, and for one of a user whose source is hashed: both
    may move to another file.
    """
    digest, package = user_code_digest(part), str(part.__module__).partition(".")[0]
    may_move = package == "xtcl" or (package not in _COVERED and digest is not None)
    return [None if may_move else part.__module__, part.__qualname__, digest]


def _all_described(values: Mapping[str, object], inside: frozenset[int]) -> dict[str, Any]:
    return {name: describe_value(value, inside) for name, value in values.items()}


def describe_value(value: object, inside: frozenset[int] = frozenset()) -> Any:
    """What is known of something that the user gave, as JSON values.

    Arrays and sparse matrices by their content, modules of torch by code and weights, functions by
    code and by the variables outside that they read. The rest by its repr. `inside` are the
    functions around it.
    """
    if isinstance(value, nn.Module):
        code = user_code_digest(*{type(part) for part in value.modules()})
        weights = _all_described(value.state_dict(), inside)
        return [*describe_code(type(value)), code, str(value), weights]
    if isinstance(value, type):
        return describe_code(value)
    if isinstance(value, FunctionType):
        named: list[Any] = [*describe_code(value)]
        if id(value) in inside:
            return named
        return [*named, _all_described(_variables(value), inside | {id(value)})]
    if type(value) in (torch.Tensor, nn.Parameter) and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.layout == torch.strided:
            value = (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return [value.dtype.str, list(value.shape), content]
    if sparse.issparse(value):
        rows: Any = value
        rows = rows.tocsr().sorted_indices()
        places = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
        return [*rows.shape, *(describe_value(part) for part in (rows.data, *places))]
    return repr(value)


def _variables(function: FunctionType) -> dict[str, object]:
    """Defaults of a function, and the variables outside that it and those inside it read.

    Of functions and classes among the global variables, only the code.
    """
    codes, names = [function.__code__], set[str]()
    for code in codes:  # grows by the functions inside
        names |= set(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    read: dict[str, object] = {
        name: user_code_digest(each) if isinstance(each, (FunctionType, type)) else each
        for name, each in function.__globals__.items()
        if name in names and not isinstance(each, ModuleType)
    }
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the variable has no value yet
            read[name] = cell.cell_contents
    return read | {"defaults": (function.__defaults__, function.__kwdefaults__)}
