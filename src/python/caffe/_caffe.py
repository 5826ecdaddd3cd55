"""Names that scripts import from pycaffe's module of C++."""

from crema import Blob, Layer
from crema._layer import BlobVec

from .pycaffe import *  # noqa: F403
from .pycaffe import __all__ as _names

__all__ = [*_names, "Blob", "BlobVec", "Layer"]  # pyright: ignore[reportUnsupportedDunderAll]
