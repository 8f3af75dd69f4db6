"""What a call of ``sliding_aggregate`` may ask for, and which of it goes together.

``Options`` holds every rule that can be judged without the DataFrame; ``request.py`` has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args, get_origin, get_type_hints

from mta import EveryCount, EveryPeriod, Trigger
from mta.monoids.product import Aggregations
from mta.pages.structure import OnDuplicate
from mta.policies.base import AbstractPolicy
from mta.times import Duration, TimeUnit, is_duration, require_unit
from mta.windows.settings import to_lateness
from stores.address import without_credentials

from .errors import InvalidRequest
from .plan import CORRECTED, LATE, Corrections, OnBadRow, OnLate, Output, Silent, policies_of

Every = int | Duration | None
Lateness = float | Duration | None
MAX_BUCKETS = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,40}")
_WINDOW = re.compile(r"[A-Za-z0-9_]{1,40}")


@dataclass(frozen=True)
class History:
    """Windows that ``save_history`` has made: their name and store."""

    name: str
    store: str

    def __repr__(self) -> str:
        return f"History({self.name!r}, {without_credentials(self.store)!r})"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What ``sliding_aggregate`` says of each; raises InvalidRequest for what cannot be done."""

    key: str | Sequence[str]
    time: str
    aggregations: Aggregations
    policy: AbstractPolicy | Mapping[str, AbstractPolicy]
    store: str | None = field(default=None, repr=False)  # it may have a password
    output: Output = "event"
    every: Every = None
    keep: Sequence[str] = ()
    types: Mapping[str, str] | None = None
    name: str | None = None
    buckets: int = 64
    arity: int | None = None
    leaf_arity: int | None = None
    late: OnLate = "error"
    allowed_lateness: Lateness = None
    time_unit: TimeUnit | None = None
    corrections: Corrections = "onward"
    existing: OnDuplicate = "append"
    retractions: str | None = None
    missing: OnBadRow = "drop"
    invalid: OnBadRow = "error"
    silent: Silent = "keep"
    retain: int = 2
    start_from: str | History | None = None

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_sizes()
        self._check_windows()
        self._check_silent()
        self._check_corrections()
        self._check_existing()
        self._check_every()

    @property
    def keys(self) -> tuple[str, ...]:
        """The key's columns."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @cached_property
    def windows(self) -> dict[str, AbstractPolicy]:
        """The policy of each window by its name, '' for a single one."""
        return policies_of(self.policy)

    @cached_property
    def lateness(self) -> int | None:
        """The allowed lateness in microseconds; None for none at all."""
        given = self.allowed_lateness
        try:
            return None if given is None else to_lateness(given)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(
                f"allowed_lateness is {given!r}: give a duration, as '10 minutes', a timedelta or "
                f"a number of seconds, or leave it out ({error})"
            ) from error

    @cached_property
    def trigger(self) -> Trigger | None:
        """When results are wanted; None for after every event."""
        every = self.every
        if every is None:
            return None
        try:
            if is_duration(every):
                return EveryPeriod(every)
            return EveryCount(every)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise InvalidRequest(
                f"every is {every!r}: give a period, as '1 minute' or a timedelta, or a number of "
                f"events, or leave it out ({error})"
            ) from error

    @property
    def marks(self) -> list[str]:
        """The columns that mark rows, in the order of the result."""
        return [CORRECTED] * (self.corrections == "append") + [LATE] * (self.late == "side")

    def _check_choices(self) -> None:
        for argument, kind in get_type_hints(Options).items():
            value, choices = getattr(self, argument), get_args(kind)
            if get_origin(kind) is Literal and value not in choices:
                known = " or ".join(map(repr, choices))
                raise InvalidRequest(f"{argument} is {value!r}: it must be {known}")

    def _check_sizes(self) -> None:
        try:
            require_unit(self.time_unit)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise InvalidRequest(
                f"name is {self.name!r}: use 1 to 40 letters, digits, dots, colons, dashes or "
                "underscores"
            )
        if not 1 <= self.buckets <= MAX_BUCKETS:
            raise InvalidRequest(
                f"buckets is {self.buckets}: it must be between 1 and {MAX_BUCKETS}"
            )
        for argument, size in (("arity", self.arity), ("leaf_arity", self.leaf_arity)):
            if size is not None and size < 2:
                raise InvalidRequest(f"{argument} is {size}: it must be at least 2")
        if self.retain < 2:
            raise InvalidRequest(
                f"retain is {self.retain}: it must be at least 2, as a replay needs the state "
                "before"
            )

    def _check_windows(self) -> None:
        if not self.windows:
            raise InvalidRequest(
                'policy is empty: name at least one window, as {"1h": TimeWindow(..)}'
            )
        several = isinstance(self.policy, Mapping)
        for name, one in self.windows.items():
            if several and not (isinstance(name, str) and _WINDOW.fullmatch(name)):
                raise InvalidRequest(
                    f"a window is called {name!r}: use 1 to 40 letters, digits or underscores, as "
                    "the columns of its results end with it"
                )
            if not isinstance(one, AbstractPolicy):
                raise InvalidRequest(
                    f"policy is {one!r}: give one, as CountWindow(1000) or TimeWindow("
                    '"24 hours"), or several by name, as {"1h": TimeWindow("1 hour"), '
                    '"1d": TimeWindow("1 day")}'
                )

    def _check_silent(self) -> None:
        """Raises InvalidRequest unless time alone can empty the windows."""
        for policy in self.windows.values():
            if self.silent != "keep" and (policy.lifetime is None or not policy.needs_times):
                raise InvalidRequest(
                    f"silent is {self.silent!r}, but time alone never empties a {policy!r}: give a "
                    "TimeWindow, by itself or as one side of |, or leave silent as it is ('keep')"
                )

    def _check_corrections(self) -> None:
        """Rows can be given again only where windows keep all that is in them."""
        lateness = self.lateness  # read first, so that a wrong one is named
        if self.corrections == "onward":
            return
        what = "corrections is 'append', but "
        if lateness is None:
            raise InvalidRequest(
                what + "no event may come late: set allowed_lateness, as '10 minutes', or leave "
                "corrections out"
            )
        if self.keep:
            raise InvalidRequest(
                f"{what}windows do not store {', '.join(self.keep)} of earlier events: leave keep "
                "empty, or join the results with the events"
            )
        if "" not in self.windows:
            raise InvalidRequest(
                f"{what}there are several windows: call sliding_aggregate for each window, or "
                "leave corrections as it is ('onward')"
            )
        if not self.windows[""].positional:
            raise InvalidRequest(
                f"{what}a {self.windows['']!r} looks at values, and cannot be asked for earlier "
                "results: give a count or a time window, or leave corrections as it is ('onward')"
            )

    def _check_existing(self) -> None:
        """Rows can replace, join and take out others where windows are kept by time."""
        if self.existing == "append" and self.retractions is None:
            return
        what = f"existing is {self.existing!r}, but "
        if self.retractions is not None:
            what = f"retractions is {self.retractions!r}, but "
            if self.retractions in (*self.keys, self.time, *self.keep):
                raise InvalidRequest(
                    f"{what}that column is the key, the time or one to keep: mark retractions in a "
                    "column of booleans of its own"
                )
        if self.lateness is None:
            raise InvalidRequest(
                f"{what}without allowed_lateness windows take events in order, and let them out "
                "from the oldest on: set allowed_lateness, though it be '0 seconds'"
            )
        if self.trigger is not None:
            raise InvalidRequest(
                f"{what}with every={self.every!r} results are given now and then, and would not "
                "tell of corrections: leave every out"
            )

    def _check_every(self) -> None:
        """Results now and then do not go with options that make rows of other events."""
        if self.trigger is None:
            return
        if self.corrections == "append":
            raise InvalidRequest(
                "corrections is 'append', but with every most rows are never given, and cannot be "
                "given again: leave corrections as it is ('onward'), or leave every out"
            )
        if not self.trigger.needs_times:
            if self.silent != "keep" and self.lateness is None:
                raise InvalidRequest(
                    f"every is {self.every!r}, but with silent={self.silent!r} the count of a "
                    "key's events would depend on when its silence is noticed: give a period, as "
                    "every='1 minute' with silent='drop', or set allowed_lateness, as '0 "
                    "seconds', where a key counts anew once it was expired, or leave silent as "
                    "it is ('keep')"
                )
            return
        if self.lateness is not None:
            raise InvalidRequest(
                "every is a period, but with allowed_lateness an event may come after the result "
                "of its boundary: give a number of events, as every=100, or leave one of them out"
            )
        if self.silent == "emit":
            raise InvalidRequest(
                "silent is 'emit', but with a period for every the boundaries tell when a window "
                "is empty: set silent='drop'"
            )
