"""Processes that share one fit: their group, their seed, and which rank computes which rows.

Work is divided only inside `distributed`. Elsewhere there is a single process, and nothing here
costs anything. Work that a rank does at its own pace runs inside `local_work`: an exchange there
would be a deadlock.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from datetime import timedelta

import numpy as np
import scipy.sparse as sp
import torch
import torch.distributed as dist
from torch import Tensor

from xtcl.errors import RankError, UsageError
from xtcl.renamed import warn_renamed

_TIMEOUT = timedelta(days=1)
"""How long a rank waits for slower ones. A rank that died is noticed at once: its connection ends.
"""


@contextmanager
def distributed(device: str = "cpu") -> Iterator[World]:
    """Share the fits inside with all other processes that enter this block and fit the same.

    These are the processes of torch.distributed where it is initialised, else those that `torchrun`
    started. A process that was started alone stays alone.
    """
    launched = dist.is_torchelastic_launched() and not dist.is_initialized()
    with process_group(device) if launched else nullcontext():
        joined = dist.is_initialized()
        group = World(dist.get_rank(), dist.get_world_size()) if joined else World()
        with _current_world(group):
            yield group


@contextmanager
def local_work() -> Iterator[None]:
    """Work that this process does alone, also inside `distributed`."""
    with _current_world(World()):
        yield


def world() -> World:
    """The processes that share the work at this point."""
    return _world.get()


class World:
    """The processes that share a fit, and the rank of this one among them. Alone by default."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.rank, self.world_size = rank, world_size

    @property
    def is_main(self) -> bool:
        """Whether this is the first rank, which writes files and prints."""
        return self.rank == 0

    @property
    def first(self) -> bool:
        """The former name of `is_main`, kept for one release."""
        warn_renamed("World.first", "is_main")
        return self.is_main

    def shares(self, lengths: Sequence[int]) -> list[slice]:
        """The part of this rank in each of some lists, which lie end to end and are cut evenly."""
        total = sum(lengths)
        cuts = [total * rank // self.world_size for rank in (self.rank, self.rank + 1)]
        starts = np.cumsum([0, *lengths[:-1]])
        parts = [
            np.clip(cuts, start, start + length) - start
            for start, length in zip(starts, lengths, strict=True)
        ]
        return [slice(int(first), int(last)) for first, last in parts]

    def share(self, rows: Tensor) -> Tensor:
        """The part of this rank in `rows`; empty where there are more ranks than rows."""
        return rows[self.shares([len(rows)])[0]]

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """The rows [n, ...] of all ranks, in the order of ranks. Memory: those of all, padded."""
        if self.world_size == 1:
            return rows
        sent = torch.from_numpy(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).copy())
        sizes = [int(size) for size in self._gather_equal(torch.tensor([len(sent)]))]
        padded = torch.nn.functional.pad(sent, (0, max(sizes) - len(sent)))
        parts = zip(self._gather_equal(padded), sizes, strict=True)
        whole = np.concatenate([part[:size].numpy() for part, size in parts])
        return whole.view(rows.dtype).reshape(-1, *rows.shape[1:])

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The sum of the tensors of all ranks, which have the same shape."""
        if self.world_size == 1:
            return tensor
        summed = tensor.clone() if dist.get_backend() == "nccl" else tensor.cpu().clone()
        with reraise_lost_rank(self.rank):
            dist.all_reduce(summed)
        return summed.to(tensor.device)

    def broadcast_float(self, value: float) -> float:
        """The value of the main rank, so that rounding does not lead ranks different ways."""
        sent = np.array([value] if self.is_main else [], dtype=np.float64)
        return float(self.gather(sent)[0])

    def broadcast_tensors(self, tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor] | None:
        """The named tensors of the main rank, or None where it has none."""
        if self.world_size == 1:
            return None if tensors is None else dict(tensors)
        from safetensors.torch import load, save

        packed = b"" if tensors is None or not self.is_main else save(dict(tensors))
        received = self.gather(np.frombuffer(packed, dtype=np.uint8)).tobytes()
        return load(received) if received else None

    def assert_same(self, identity: str) -> None:
        """Refuse ranks that were given different input, which would end in a deadlock."""
        if len(np.unique(self.gather(np.array([identity])))) > 1:
            raise UsageError(
                f"Rank {self.rank} and another were given different graphs, settings or versions "
                "of xtcl: start the same command with the same files on every machine."
            )

    def _gather_equal(self, tensor: Tensor) -> list[Tensor]:
        """Tensors of the same shape from all ranks, on the CPU."""
        tensor = tensor.cuda() if dist.get_backend() == "nccl" else tensor
        parts = [torch.empty_like(tensor) for _ in range(self.world_size)]
        with reraise_lost_rank(self.rank):
            dist.all_gather(parts, tensor)
        return [part.cpu() for part in parts]


_world: ContextVar[World] = ContextVar("world", default=World())  # noqa: B039


@contextmanager
def _current_world(new: World) -> Iterator[None]:
    before = _world.set(new)
    try:
        yield
    finally:
        _world.reset(before)


def all_gather_rows(
    compute: Callable[[Tensor], sp.csr_array], nodes: Tensor, height: int, width: int
) -> sp.csr_array:
    """The rows [n, width] of `nodes`, each rank computing its share, `height` rows at a time.

    Memory: twice that of the rows.
    """
    group = world()
    own = group.share(nodes)
    blocks = [compute(block) for block in torch.split(own, height)] if len(own) else []
    empty = sp.csr_array((0, width), dtype=np.float32)
    rows = sp.csr_array(sp.vstack([empty, *blocks], format="csr"))
    if group.world_size == 1:
        return rows
    length = group.gather(np.diff(rows.indptr).astype(np.int64))
    column = group.gather(rows.indices.astype(np.int64))
    start = np.concatenate([[0], np.cumsum(length)])
    return sp.csr_array((group.gather(rows.data), column, start), shape=(len(nodes), width))


@contextmanager
def process_group(device: str) -> Iterator[None]:
    """The process group of `torchrun`: NCCL where every rank of this machine has a GPU, else gloo.

    Each rank takes a GPU of its own where there are enough. When a rank ends, torchrun ends the
    others with SIGTERM; they then raise a RankError.
    """
    local_rank, local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    gpus = 0 if device == "cpu" else torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(local_rank % gpus)
    before = signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        dist.init_process_group("nccl" if gpus >= local_size else "gloo", timeout=_TIMEOUT)
        yield
    except BaseException:
        before = signal.SIG_IGN  # this rank ends already, with an error of its own
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        if dist.is_initialized():
            dist.destroy_process_group()


def _raise_terminated(number: int, frame: object) -> None:
    raise RankError(
        f"Rank {os.environ['RANK']} was stopped, most likely because another rank failed: see "
        "the error of that one, and start the same command with --resume to go on."
    )


@contextmanager
def reraise_lost_rank(rank: int) -> Iterator[None]:
    """Turn a failed exchange into a RankError with a remedy."""
    try:
        yield
    except RuntimeError as lost:
        reason = (str(lost).splitlines() or ["no reason given"])[0].rstrip(".")
        raise RankError(
            f"Rank {rank} lost touch with another rank of this fit ({reason}) and ends, too: see "
            "what that one said, and start the same command with --resume to go on."
        ) from lost


def check_seed(random_state: object) -> None:
    """Refuse what cannot seed a fit."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return
    if not isinstance(random_state, (int, np.integer)) or not 0 <= random_state < 2**32:
        raise UsageError(
            f"random_state={random_state} must be a whole number from 0 to 2**32 - 1, a "
            "numpy.random.RandomState, or None for another seed in each fit."
        )


def drawn_seed(random_state: int | np.random.RandomState | None) -> int:
    """The seed itself, or one drawn: from a RandomState, or from the system for None.

    Processes that share a fit take the seed of the first.
    """
    check_seed(random_state)
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if random_state is None:
        drawn = int(np.random.SeedSequence().generate_state(1)[0])
    else:
        drawn = int(random_state.randint(2**32, dtype=np.uint32))
    return int(world().broadcast_float(drawn))
