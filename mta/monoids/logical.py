"""Truth values (any, all, count), bits (and, or, xor), and products of numbers.

A number is true unless it is 0. Bits are those of ``dtype``, by default int64. All but ``Multiply``
are exact.

``Multiply`` stores a mantissa and a 64-bit exponent. A product that leaves the range of doubles and
returns to it is therefore correct up to one rounding per event, in any order.

>>> from mta import CountWindow, Window
>>> Window(Multiply(), CountWindow(3), name="p").extend([1e300, 1e300, 1e-300, 4.0]).tolist()
[1e+300, inf, 1e+300, 4.0]
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mta.errors import InvalidValue
from mta.monoids.base import Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.equality import ROUNDING, Scale, close

#: Beyond these exponents, a double is infinite or 0, whatever its mantissa.
_EXPONENTS = 4096


class _Truth(ColumnarMonoid[Any]):
    """A monoid of truth values."""

    _ufunc: np.ufunc
    _identity: bool | int = False
    _partial = "?"

    def __init__(self, dtype: Any = None) -> None:
        kind = np.dtype(dtype or "f8")
        if kind.kind not in "biuf":
            raise InvalidValue(f"{kind} is neither a number nor a boolean: compare it first")
        self._follows = dtype is None
        super().__init__(
            type(self).__name__ + ("" if kind == np.float64 else f"[{kind.name}]"),
            inputs=kind,
            partials=self._partial,
            output=self._partial,
            identity=self._identity,
            empty=self._identity,
            lift=lambda value: (value != 0).astype(self._partial),
            ufuncs=(self._ufunc,),
        )

    def of_types(self, *types: Any) -> Self:
        """Booleans are stored as one byte each; other numbers are read as doubles."""
        return type(self)("?") if self._follows and types[0] == "bool" else self


class AnyTrue(_Truth):
    """Whether any value is true; False for an empty window.

    Args:
        dtype: The type of the values. Defaults to the column's type in ``rolling`` and Spark, and
            to float64 elsewhere. A number is true unless it is 0.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import AnyTrue
    >>> Window(AnyTrue(), CountWindow(2)).extend([0, 1, 0, 0]).tolist()
    [False, True, True, False]
    """

    _ufunc = np.logical_or


class AllTrue(_Truth):
    """Whether every value is true; True for an empty window.

    Args:
        dtype: The type of the values. Defaults to the column's type in ``rolling`` and Spark, and
            to float64 elsewhere. A number is true unless it is 0.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import AllTrue
    >>> Window(AllTrue(), CountWindow(2)).extend([0, 1, 1, 0]).tolist()
    [False, False, True, False]
    """

    _ufunc, _identity = np.logical_and, True


class CountIf(_Truth):
    """The number of values that are true.

    Args:
        dtype: The type of the values. Defaults to the column's type in ``rolling`` and Spark, and
            to float64 elsewhere. A number is true unless it is 0.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import CountIf
    >>> Window(CountIf(), CountWindow(2)).extend([0, 1, 1, 0]).tolist()
    [0, 1, 2, 1]
    """

    never_null = True

    _ufunc, _identity, _partial = np.add, 0, "i8"


class _Bits(ColumnarMonoid[int]):
    """A monoid of the bits of integers."""

    _ufunc: np.ufunc
    _identity = 0

    def __init__(self, dtype: Any = "int64") -> None:
        kind = np.dtype(dtype)
        if kind.kind not in "iu":
            raise InvalidValue(f"bitwise aggregations need integers, not {kind}")
        # -1 has all bits set, like the largest unsigned number.
        identity = np.array(self._identity, "i8").astype(kind)[()]
        super().__init__(
            type(self).__name__ + ("" if kind == np.int64 else f"[{kind.name}]"),
            inputs=kind,
            partials=kind,
            output=kind,
            identity=identity,
            empty=int(identity),
            ufuncs=(self._ufunc,),
            inverse=np.bitwise_xor if self._ufunc is np.bitwise_xor else None,
        )


class BitAnd(_Bits):
    """The bits that are set in all values; all bits for an empty window.

    Args:
        dtype: An integer type such as "int64" or "uint8".

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import BitAnd
    >>> Window(BitAnd(), CountWindow(2)).extend([6, 3, 1]).tolist()
    [6, 2, 1]
    """

    _ufunc, _identity = np.bitwise_and, -1


class BitOr(_Bits):
    """The bits that are set in any value.

    Args:
        dtype: An integer type such as "int64" or "uint8".

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import BitOr
    >>> Window(BitOr(), CountWindow(2)).extend([6, 3, 1]).tolist()
    [6, 7, 3]
    """

    _ufunc = np.bitwise_or


class BitXor(_Bits):
    """The bits that are set in an odd number of values.

    Args:
        dtype: An integer type such as "int64" or "uint8".

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import BitXor
    >>> Window(BitXor(), CountWindow(2)).extend([6, 3, 1]).tolist()
    [6, 5, 2]
    """

    _ufunc = np.bitwise_xor


class Multiply(ColumnarMonoid[float]):
    """The product of the values; 1.0 for an empty window.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import Multiply
    >>> Window(Multiply(), CountWindow(2)).extend([2.0, 3.0, 4.0]).tolist()
    [2.0, 6.0, 12.0]
    """

    def __init__(self) -> None:
        super().__init__(
            "Multiply",
            partials=("f8", "i8"),
            identity=(1.0, 0),
            empty=1.0,
            lift=_split,
            combine=_multiplied,
            lower=_joined,
            commutative=True,
        )

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Equal up to one rounding per event; a mantissa of 1/2 may be 1 - 2^-53 after rounding."""
        count = 1 if scale is None else scale.count
        shift = float(np.clip(one[1] - other[1], -2, 2))
        return close(np.float64(one[0]) * 2.0**shift, other[0], 0.0, (count + 1) * ROUNDING)


def _split(value: Any) -> Partial:
    mantissa, exponent = np.frexp(value)
    return mantissa, exponent.astype("i8")


def _multiplied(left: Partial, right: Partial) -> Partial:
    mantissa, exponent = np.frexp(np.multiply(left[0], right[0]))
    return mantissa, left[1] + right[1] + exponent


def _joined(partial: Partial) -> Any:
    mantissa, exponent = partial
    return np.ldexp(mantissa, np.clip(exponent, -_EXPONENTS, _EXPONENTS).astype("i4")) + 0.0
