"""The context that nets and solvers get when none is named."""

from __future__ import annotations

import threading
import warnings

from ._crema import Context, why_no_gpu

TRAIN = 0
TEST = 1

_lock = threading.Lock()
_device: int | None = None
_seed = 1701
_warned = False
_contexts: dict[tuple[int | None, int], Context] = {}
_chosen: Context | None = None


def context() -> Context:
    """The context of nets that are made without one: on the CPU, unless set_context said otherwise."""
    with _lock:
        if _chosen is not None:
            return _chosen
        key = (_device, _seed)
        if key not in _contexts:
            # One at a time: a context of another seed has all that the last one has measured, by
            # the tuning file.
            _contexts.clear()
            _contexts[key] = Context(_device, seed=_seed)
        return _contexts[key]


def set_context(chosen: Context | None) -> None:
    """Sets the context of nets that are made from now on. None: the one that Crema makes."""
    global _chosen
    _chosen = chosen


def use_gpu(index: int) -> None:
    """Nets that are made from now on run on this GPU; on the CPU, with a warning, without one."""
    global _device, _warned
    reason = why_no_gpu()
    if reason is None:
        _device = index
        return
    _device = None
    if not _warned:
        _warned = True
        warnings.warn(f"there is no GPU to use, so nets run on the CPU: {reason}", stacklevel=3)


def use_cpu() -> None:
    """Nets that are made from now on run on the CPU."""
    global _device
    _device = None


def use_seed(seed: int) -> None:
    """The seed of nets and solvers that are made from now on. ValueError if it is negative."""
    global _seed
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"the seed {seed} is not between 0 and 2**64 - 1")
    _seed = seed
