"""Which pages and published snapshots of declared windows nothing needs.

Processes that were killed leave pages that no state names. Processes that publish at the same
moment leave snapshots that the head does not name. The last compactions of an erasure delete the
pages of their shard, and each publication of an erasure the snapshots. ``mta gc --config`` deletes
both, also while processes serve the windows:

- A page is garbage if neither the newest state of its shard nor a published snapshot names it, and
  every writer that continues from this state is past it (``OpaqueKeys.is_garbage``).
- A published snapshot is garbage if the head does not name it, and it is not the newest state of
  its shard, which may be about to be published. If an earlier one was about to be, readers wait
  until the next publication, a second later.
"""

from __future__ import annotations

from collections.abc import Iterator

from mta.audit.keyed import OpaqueKeys
from mta.audit.published import needed_by_published
from mta.pages import name_of
from mta.publishing.publisher import read_head
from mta.publishing.records import PREFIX, snapshot_key
from mta.service.declaration import Declaration
from mta.service.log import ShardLog
from stores import PageStore


def states_of(store: PageStore, declared: Declaration) -> Iterator[tuple[int, bytes]]:
    """Yield the newest state of each shard that has one. Raises NotCreated and LostRecords."""
    for shard in range(declared.shards):
        log = ShardLog(store, declared.name, shard)
        log.head = log.read_head()
        state = log.state()
        if state is not None:
            yield shard, state


def unneeded_pages(store: PageStore, name: str, state: bytes) -> list[str]:
    """Return the pages of a shard's windows that neither its state nor readers need.

    Only the owner of the shard may delete them, right after it has written this state. Lists the
    keys of the windows and the published ones, and reads every inner page.
    """
    own = [key for key in store.keys(name) if key.startswith((f"{name}/", f"{name}:"))]
    live = set(OpaqueKeys(state, store).live_keys())
    gone = [key for key in own if key not in live]
    if gone:
        published = needed_by_published(store, store.keys(PREFIX))
        gone = [key for key in gone if key not in published]
    return gone


def unneeded_snapshots(
    store: PageStore, name: str, states: dict[int, bytes], shard: int | None = None
) -> list[str]:
    """Return the published snapshots, of one shard or all, that the head does not name.

    Lists them. ``states`` are the newest ones.
    """
    part = "" if shard is None else f"{shard}/"
    listed = [*store.keys(f"{PREFIX}{name}/snapshot/{part}")]
    head = read_head(store, name)
    needed = set() if head is None else head.snapshot_keys()
    needed |= {snapshot_key(name, number, name_of(state)) for number, state in states.items()}
    return [key for key in listed if key not in needed]
