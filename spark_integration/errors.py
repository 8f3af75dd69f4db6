"""The errors of the Spark integration; each says what to do.

They are raised on the driver while the DataFrame is built (``InvalidRequest``), or in a Python
worker; then Spark's exception on the driver contains the error's name and text. A row without a
time raises ``mta.errors.InvalidTime``, and a row without a value ``mta.errors.InvalidValue``.
"""

from __future__ import annotations

from stores.errors import WindowStoreError


class InvalidRequest(WindowStoreError, ValueError):
    """The arguments do not fit the DataFrame, the session or each other: correct them."""


class InvalidInput(InvalidRequest):
    """An input file cannot be read: correct the file, or describe its format."""


class InputDenied(InvalidRequest, PermissionError):
    """This user may not read an input file or folder: grant the right to read it."""


class NoSuchTopic(InvalidRequest):
    """Kafka has no such topic: correct the name, or create the topic."""


class BrokerUnavailable(WindowStoreError, ConnectionError):
    """Kafka did not answer in time: nothing was lost; start the query again when it is back."""


class NullKey(WindowStoreError, ValueError):
    """A row has no key: filter such rows out, or set on_invalid='drop' to drop and count them."""


class StateMismatch(WindowStoreError, ValueError):
    """The checkpoint was written with other settings: restore these, or start a new checkpoint."""


class CorruptState(WindowStoreError, ValueError):
    """A state value is damaged: restart the query from an older Spark checkpoint."""


class TimeLimitReached(WindowStoreError, TimeoutError):
    """Spark did not finish within the time limit: nothing is lost; set a longer limit."""
