"""First, last and extreme values of text and other objects, and lists of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mta.columns.schemas import Objects
from mta.monoids.base import Monoid, Partial


class _TextMonoid(Monoid):
    """A monoid that chooses one of its objects, of any type; the partial of no events is None."""

    _choose: Callable[[Any, Any], Any]
    follows_column = True

    def __init__(self) -> None:
        choose = type(self)._choose

        def chosen(left: Partial, right: Partial) -> Partial:
            return right if left is None else left if right is None else choose(left, right)

        super().__init__(None, chosen, name=type(self).__name__, selective=True)


class MinText(_TextMonoid):
    """The smallest text, or other object that Python orders; the oldest wins a tie.

    >>> from mta import CountWindow, MinText, Window
    >>> list(Window(MinText(), CountWindow(2), name="MinText").extend(["b", "c", "a"]))
    ['b', 'b', 'a']
    """

    _choose = staticmethod(lambda left, right: right if right < left else left)


class MaxText(_TextMonoid):
    """The largest text, or other object that Python orders; the oldest wins a tie.

    >>> from mta import CountWindow, MaxText, Window
    >>> list(Window(MaxText(), CountWindow(2), name="MaxText").extend(["b", "c", "a"]))
    ['b', 'c', 'c']
    """

    _choose = staticmethod(lambda left, right: right if right > left else left)


class EndText(_TextMonoid):
    """The first or last object."""

    def __init__(self, skip_nulls: bool = True) -> None:
        #: As for ``First`` and ``Last``.
        self.skip_nulls = skip_nulls
        super().__init__()


class FirstText(EndText):
    """The oldest text or other object in the window.

    Args:
        skip_nulls: As for ``First``.

    >>> from mta import CountWindow, FirstText, Window
    >>> list(Window(FirstText(), CountWindow(2), name="FirstText").extend(["b", "c", "a"]))
    ['b', 'b', 'c']
    """

    _choose = staticmethod(lambda left, right: left)


class LastText(EndText):
    """The newest text or other object in the window.

    Args:
        skip_nulls: As for ``Last``.

    >>> from mta import CountWindow, LastText, Window
    >>> list(Window(LastText(), CountWindow(2), name="LastText").extend(["b", "c", "a"]))
    ['b', 'c', 'a']
    """

    _choose = staticmethod(lambda left, right: right)


class _List(Monoid[Any, tuple[Any, ...], list[Any]]):
    never_null = True

    def __init__(self) -> None:
        super().__init__((), self._joined, lambda value: (value,), list, type(self).__name__)
        self.partials = Objects(tuple)

    def _joined(self, left: Partial, right: Partial) -> Partial:
        return left + right


class Collect(_List):
    """All values of the window as a list, oldest first; a result costs O(n).

    >>> from mta import CountWindow, Collect, Window
    >>> list(Window(Collect(), CountWindow(2), name="Collect").extend([1, 1, 2]))
    [[1], [1, 1], [1, 2]]
    """


class CollectDistinct(_List):
    """The distinct values of the window as a list, in order of first appearance.

    A result costs O(distinct values); use it for windows with few of them.

    >>> from mta import CountWindow, CollectDistinct, Window
    >>> list(Window(CollectDistinct(), CountWindow(2), name="CollectDistinct").extend([1, 1, 2]))
    [[1], [1], [1, 2]]
    """

    def _joined(self, left: Partial, right: Partial) -> Partial:
        return tuple(dict.fromkeys(left + right))
