"""Names of parameters that are the same in every process, as tests spread over several need."""

from __future__ import annotations

import re
from typing import Any


def shown(value: Any) -> str:
    """The value's type and what it looks like, without the address where it happens to lie."""
    return f"{type(value).__name__} {re.sub(r' at 0x[0-9a-f]+', '', repr(value))}"
