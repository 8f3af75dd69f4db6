"""Reset objects in a forked child: locks that another thread may hold, and threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with locks, threads or pending work that belong to its process."""

    def start_over(self) -> None:
        """Start again with new locks, no thread and no pending work."""


_alive: WeakSet[Forkable] = WeakSet()


def start_over_in_children(thing: Forkable) -> None:
    """Call ``thing.start_over()`` in every forked child, before it does anything else."""
    _alive.add(thing)


def _after_fork_in_child() -> None:
    for thing in list(_alive):
        thing.start_over()


def at_fork(**calls: Callable[[], None]) -> None:
    """Register calls around every fork, like ``os.register_at_fork``; Windows has no forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**calls)


at_fork(after_in_child=_after_fork_in_child)
