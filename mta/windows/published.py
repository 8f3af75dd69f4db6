"""What readers must know of windows that are published."""

from __future__ import annotations

from collections.abc import Mapping

from mta.frames.base import AbstractPolicy
from mta.publishing.records import Shape, What, what_of
from mta.windows.engine import Engine


def what_of_engine(
    shape: Shape, engine: Engine, policies: Mapping[str, AbstractPolicy]
) -> tuple[What, int]:
    """The description of an engine's windows, and how many snapshots are retained."""
    settings = engine.settings
    late, name = settings.allowed_lateness, engine.structure.name
    what = what_of(shape, engine.main, policies, settings.on_duplicate, late, name)
    return what, settings.retain
