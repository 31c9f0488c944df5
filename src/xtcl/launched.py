"""Processes that `torchrun` started: how they meet, and how they end when one of them does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from xtcl.errors import RankError

PATIENCE = timedelta(days=1)
"""How long a rank waits for slower ones. One that died is noticed at once: its connection ends."""


@contextmanager
def meeting(device: str) -> Iterator[None]:
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
        dist.init_process_group("nccl" if gpus >= here else "gloo", timeout=PATIENCE)
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
