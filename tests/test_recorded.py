"""Room for a recording on a GPU."""

from __future__ import annotations

import pytest
import torch

from xtcl.recorded import make_room


@pytest.mark.parametrize(("free", "given_back"), [(9, False), (8, False), (7, True)])
def test_kept_memory_is_given_back_where_it_is_more_than_half_of_what_is_free(
    free: int, given_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 16))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 11)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 7)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("waited"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("gave back"))
    make_room()
    assert done == (["waited", "gave back"] if given_back else [])
