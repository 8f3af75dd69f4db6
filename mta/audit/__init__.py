"""What a snapshot refers to: descriptions, verification, garbage collection.

- ``walk``: a summary of a snapshot; its pages, verified, or listed as live for garbage collection
- ``keyed``: the same for snapshots of keyed windows
- ``published``: the pages that published snapshots need
"""

from mta.audit.walk import (
    Audit,
    Damage,
    SnapshotSummary,
    SubWindow,
    audit,
    describe_snapshot,
    is_garbage,
    live_keys,
)

__all__ = [
    "Audit",
    "Damage",
    "SnapshotSummary",
    "SubWindow",
    "audit",
    "describe_snapshot",
    "is_garbage",
    "live_keys",
]
