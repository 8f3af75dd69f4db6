"""Frames as users write them: a frame, a duration, a number of events, or several by name.

>>> frame_of("24 hours"), frame_of(100), frames_of({"day": "1 day", "few": 5})
(TimeWindow('1 day'), CountWindow(100), {'day': TimeWindow('1 day'), 'few': CountWindow(5)})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mta.frames.base import Frame
from mta.frames.windows import CountWindow, TimeWindow
from mta.times import Duration, is_duration

#: A frame, a duration, a number of events, or a number of seconds that is a float.
Size = Frame | Duration | float


def frame_of(size: Any) -> Frame:
    """Return a frame as it is, the frame of a number of events, or that of a duration.

    Raises TypeError and ValueError, which say what is allowed.
    """
    if isinstance(size, Frame):
        return size
    if isinstance(size, type) and issubclass(size, Frame):
        raise TypeError(f"a frame is an object, and {size.__name__} is a class: write its size too")
    whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if whole and not is_duration(size):
        return CountWindow(size)
    if isinstance(size, float) or is_duration(size):
        return TimeWindow(size)
    raise TypeError(
        "a frame is one of mta's, a duration such as '24 hours', a number of events, or a "
        f"CustomFrame of your own, not {size!r}"
    )


def frames_of(window: Any) -> dict[str, Frame]:
    """Return each frame by its name; a single frame has the name "". Raises as ``frame_of``."""
    named = window if isinstance(window, Mapping) else {"": window}
    return {name: frame_of(size) for name, size in named.items()}
