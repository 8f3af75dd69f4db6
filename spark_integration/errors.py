"""The errors of the Spark integration; each says what to do.

Raised on the driver while the DataFrame is built (``InvalidRequest``), or inside a Python worker,
where Spark includes name and text in the exception on the driver. A row without a time is
``mta.errors.InvalidTime``, without a value ``mta.errors.InvalidValue``.
"""

from __future__ import annotations

from stores.errors import WindowStoreError


class InvalidRequest(WindowStoreError, ValueError):
    """The arguments do not fit the DataFrame, the session or each other: correct them."""


class InvalidInput(InvalidRequest):
    """An input file cannot be read: correct it, or say how it is written."""


class InputDenied(InvalidRequest, PermissionError):
    """This user may not read an input file or folder: give it the right to."""


class NoSuchTopic(InvalidRequest):
    """Kafka has no such topic: correct its name, or create it."""


class BrokerUnavailable(WindowStoreError, ConnectionError):
    """Kafka did not answer in time: nothing was lost, start the query again when it is back."""


class NullKey(WindowStoreError, ValueError):
    """A row has no key: filter such rows out, or set on_invalid='drop' to drop and count them."""


class StateMismatch(WindowStoreError, ValueError):
    """The checkpoint was written with other settings: restore these, or start a new checkpoint."""


class CorruptState(WindowStoreError, ValueError):
    """A state value is damaged: restart the query from an older Spark checkpoint."""


class TimeLimitReached(WindowStoreError, TimeoutError):
    """Spark was not done in the time that it was given: nothing is lost, give it more."""
