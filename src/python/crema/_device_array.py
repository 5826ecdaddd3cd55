"""Arrays of blobs of nets on a GPU: a tensor of that GPU that is assigned to them stays there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._crema import Blob


class DeviceArray(np.ndarray):  # type: ignore[type-arg, unused-ignore]
    """The host's view of a blob on a GPU.

    `blob.data[...] = tensor` of a tensor of PyTorch or CuPy on the same GPU, of the same shape and
    type, copies within the GPU. Any other assignment of such a tensor goes through the host.
    """

    _blob: Blob | None = None  # of views of a part: none
    _of_diff = False

    def __setitem__(self, key: Any, value: Any) -> None:
        if not _is_on_device(value):
            super().__setitem__(key, value)
            return
        _wait_for(value)
        is_whole = key is Ellipsis or (isinstance(key, slice) and key == slice(None))
        if is_whole and self._blob is not None and self._blob.take_from_device(value,
                                                                               self._of_diff):
            return
        super().__setitem__(key, _on_host(value))


def of(array: np.ndarray[Any, Any], blob: Blob, of_diff: bool) -> DeviceArray:
    """`array`, which shows the data or the diff of `blob`, as such an array."""
    made = array.view(DeviceArray)
    made._blob = blob
    made._of_diff = of_diff
    return made


def _is_on_device(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic, float, int)):
        return False
    return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] != 1  # kDLCPU


def _wait_for(value: Any) -> None:
    """What was queued for the tensor is done."""
    package = type(value).__module__.partition(".")[0]
    if package == "torch":
        sys.modules["torch"].cuda.current_stream(value.device).synchronize()
    elif package == "cupy":
        sys.modules["cupy"].cuda.get_current_stream().synchronize()


def _on_host(value: Any) -> Any:
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    if hasattr(value, "get"):
        return value.get()
    return np.asarray(value)
