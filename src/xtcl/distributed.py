"""Processes that `torchrun` started: how they meet, and how they end when one of them does."""

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

TIMEOUT = timedelta(days=1)
"""How long a rank waits for slower ones. One that died is noticed at once: its connection ends."""


@contextmanager
def process_group(device: str) -> Iterator[None]:
    """Talk through NCCL where every rank of this machine has a GPU, else through gloo.

    Each takes a GPU of its own where they suffice. When a rank ends, torchrun tells the others to
    end, too: they do so with a sentence.
    """
    local, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    gpus = 0 if device == "cpu" else torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(local % gpus)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        dist.init_process_group("nccl" if gpus >= here else "gloo", timeout=TIMEOUT)
        yield
    except BaseException:
        before = signal.SIG_IGN  # on the way out already, with something to say
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        if dist.is_initialized():
            dist.destroy_process_group()


def _end(number: int, frame: object) -> None:
    raise RankError(
        f"Rank {os.environ['RANK']} was told to end, most likely because another rank did: see "
        "what that one said, and start the same command with --resume to go on."
    )


# The processes that share one fit, as `torchrun` starts them: who does which rows.
#
# Work is divided only inside `together`; elsewhere a process is alone, and nothing here costs
# anything. What one rank does at its own pace runs inside `alone`: an exchange there would wait
# for
# ever.


class World:
    """A process among those that share a fit; alone unless said otherwise."""

    def __init__(self, own: int = 0, number: int = 1) -> None:
        self.own, self.number = own, number

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes and speaks."""
        return self.own == 0

    def shares(self, lengths: Sequence[int]) -> list[slice]:
        """The part of this rank in each of some lists, which lie end to end and are cut evenly."""
        total = sum(lengths)
        cuts = [total * rank // self.number for rank in (self.own, self.own + 1)]
        starts = np.cumsum([0, *lengths[:-1]])
        parts = [
            np.clip(cuts, start, start + length) - start
            for start, length in zip(starts, lengths, strict=True)
        ]
        return [slice(int(first), int(last)) for first, last in parts]

    def share(self, rows: Tensor) -> Tensor:
        """The part of this rank in `rows`; none where ranks are more than rows."""
        return rows[self.shares([len(rows)])[0]]

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """The rows [n, ...] of all ranks, one after the other. Memory: those of all, padded."""
        if self.number == 1:
            return rows
        sent = torch.from_numpy(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).copy())
        sizes = [int(size) for size in self._gather_equal(torch.tensor([len(sent)]))]
        padded = torch.nn.functional.pad(sent, (0, max(sizes) - len(sent)))
        parts = zip(self._gather_equal(padded), sizes, strict=True)
        whole = np.concatenate([part[:size].numpy() for part, size in parts])
        return whole.view(rows.dtype).reshape(-1, *rows.shape[1:])

    def total(self, own: Tensor) -> Tensor:
        """The sum of the tensors of all ranks, which have the same shape."""
        if self.number == 1:
            return own
        summed = own.clone() if dist.get_backend() == "nccl" else own.cpu().clone()
        with reraise_lost_rank(self.own):
            dist.all_reduce(summed)
        return summed.to(own.device)

    def agreed(self, value: float) -> float:
        """What the first rank says, so that rounding does not lead ranks different ways."""
        said = np.array([value] if self.first else [], dtype=np.float64)
        return float(self.gather(said)[0])

    def check_same(self, identity: str) -> None:
        """Refuse ranks that were given something different each: they would wait for ever."""
        if len(np.unique(self.gather(np.array([identity])))) > 1:
            raise UsageError(
                f"Rank {self.own} and another were given different graphs, settings or versions of "
                "xtcl: start the same command with the same files on every machine."
            )

    def tensors_from_first(self, tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor] | None:
        """The named tensors of the first rank, or None where it has none."""
        if self.number == 1:
            return None if tensors is None else dict(tensors)
        from safetensors.torch import load, save

        packed = b"" if tensors is None or not self.first else save(dict(tensors))
        received = self.gather(np.frombuffer(packed, dtype=np.uint8)).tobytes()
        return load(received) if received else None

    def _gather_equal(self, own: Tensor) -> list[Tensor]:
        """Tensors of the same shape from all ranks, on the CPU."""
        own = own.cuda() if dist.get_backend() == "nccl" else own
        parts = [torch.empty_like(own) for _ in range(self.number)]
        with reraise_lost_rank(self.own):
            dist.all_gather(parts, own)
        return [part.cpu() for part in parts]


@contextmanager
def reraise_lost_rank(own: int) -> Iterator[None]:
    """Say in a sentence that the exchange broke off."""
    try:
        yield
    except RuntimeError as lost:
        reason = (str(lost).splitlines() or ["no reason given"])[0].rstrip(".")
        raise RankError(
            f"Rank {own} lost touch with another rank of this fit ({reason}) and ends, too: see "
            "what that one said, and start the same command with --resume to go on."
        ) from lost


_here: ContextVar[World] = ContextVar("ranks", default=World())  # noqa: B039


def world() -> World:
    """The processes that share the work of this moment."""
    return _here.get()


@contextmanager
def _being(who: World) -> Iterator[World]:
    before = _here.set(who)
    try:
        yield who
    finally:
        _here.reset(before)


@contextmanager
def local_work() -> Iterator[None]:
    """Work that this process does at its own pace, also among others."""
    with _being(World()):
        yield


@contextmanager
def distributed(device: str = "cpu") -> Iterator[World]:
    """Share fits with all other processes that come here too and fit the same.

    They are those of torch.distributed where it is initialised, else those that `torchrun` started;
    a process that was started alone stays alone.
    """
    launched = dist.is_torchelastic_launched() and not dist.is_initialized()
    with process_group(device) if launched else nullcontext():
        joined = dist.is_initialized()
        with _being(World(dist.get_rank(), dist.get_world_size()) if joined else World()) as who:
            yield who


def all_gather_rows(
    compute: Callable[[Tensor], sp.csr_array], nodes: Tensor, height: int, width: int
) -> sp.csr_array:
    """The rows [n, width] of `nodes`, `height` at a time. Memory: twice that of the rows."""
    everyone = world()
    own = everyone.share(nodes)
    blocks = [compute(block) for block in torch.split(own, height)] if len(own) else []
    empty = sp.csr_array((0, width), dtype=np.float32)
    rows = sp.csr_array(sp.vstack([empty, *blocks], format="csr"))
    if everyone.number == 1:
        return rows
    length = everyone.gather(np.diff(rows.indptr).astype(np.int64))
    column = everyone.gather(rows.indices.astype(np.int64))
    start = np.concatenate([[0], np.cumsum(length)])
    return sp.csr_array((everyone.gather(rows.data), column, start), shape=(len(nodes), width))
