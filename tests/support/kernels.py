"""Windows without the compiled kernels, for comparisons."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

from mta.kernels import native

#: Use only numpy in this context; not while other threads use windows.
numpy_alone = partial(patch.object, native, "compiled", None)
