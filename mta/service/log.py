"""The head and the log of a shard in the store, and how owners exclude each other.

Every event is in the log before its answer. Records, in the group "service:" and the name:

    head       head/SHARD             who owns the shard, and from where its state is read
    log        log/SHARD/NUMBER       the accepted events of one commit, or a fence
    state      state/SHARD/NUMBER     a snapshot of the shard's windows
    ids        ids/SHARD/NUMBER       the digests of the ids of some events, sorted
    answers    answers/SHARD/NUMBER   their answers and keys, in the same order

    head       = body digest, body = msgpack array ["mta-shard", 1, epoch, owner, address, secret,
                 position, count, newest, fingerprint, pages, since, replaced, erasing],
                 see ``Head``
    log        = body digest, body = msgpack array ["mta-events", 1, number, epoch, rows]
    rows       = nil for a fence, or [times, keys, columns, digests, answers]: lists of one entry
                 per event; of a digest and an answer, empty bytes for an event without an id
    state      = a snapshot of ``KeyedWindows``

An owner claims a shard: it replaces the head, with the next epoch. Then it restores the windows
from the state, adds the events of the log from ``position`` on, and puts a fence where the log
ends. Why no two owners can both acknowledge events:

- A record of the log is put only where there is none, and only while the head is the owner's. The
  store checks both in one step, except an object store, which checks the head after the put.
- So an earlier owner that wakes up is refused. In an object store, the place where it would put its
  next record has the fence of its successor. Fences are never deleted.

Why a store that was emptied, or lost its newest writes, never admits freely: a record is put only
if the record before it is still there, and a shard without a head is an error.

After a compaction, the head names a new state and a later position, and the earlier records, except
the last one, are deleted. ``count`` numbers states and pages of ids, so that a new owner knows the
names of what its predecessor may have written in vain. It deletes this, and whatever its
predecessor was about to delete.

A state is put where there is none, and only while the head is the owner's, like the log.

An erasure is a compaction after a fence: so the last record, which remains, has no events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from mta.errors import StoreUnavailable, WindowStoreError
from mta.pages import corrupt
from mta.snapshots import Fit, entries, entry, is_number, seal, unseal
from stores import PageStore, RecordPut

_HEAD, _EVENTS, VERSION = "mta-shard", "mta-events", 1
#: The time of the newest event while there is none.
NEVER = -(1 << 62)
#: How many records of the log are read together, and after the end of the log to find holes.
_AT_ONCE = 64
#: How often the place of a fence is looked for.
_TRIES = 1000
#: The digests of a page of ids, their answers, and their number.
Ids = tuple[bytes, bytes, int]


class NotCreated(WindowStoreError, LookupError):
    """The store has no windows of this name: create them, or restore the store."""


class LostRecords(WindowStoreError, LookupError):
    """The store has lost records that it had acknowledged: restore a copy that has them."""


class NotOwner(WindowStoreError, RuntimeError):
    """Another process owns the shard now."""


class OtherWindows(WindowStoreError, ValueError):
    """The windows of this name were declared otherwise: choose another name."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of ids: its number, how many ids it has, and until when retries may come."""

    number: int
    size: int
    until: int


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a shard."""

    epoch: int
    owner: str
    """The id of the process that owns the shard; "" if none does."""
    address: str
    """Where the owner takes forwarded events: host:port."""
    secret: str
    """What a forwarded request must know."""
    position: int
    """The number of the first record of the log that is not in the state."""
    count: int
    """The number of the state; 0 if there is none yet."""
    newest: int
    """The time of the newest event in the state, in microseconds since 1970."""
    fingerprint: bytes
    pages: tuple[Page, ...] = ()
    """The pages of ids that are still needed."""
    since: int = 0
    """The number of the first record of the log that may have to be deleted."""
    replaced: tuple[int, ...] = ()
    """The numbers of states and pages of ids that may have to be deleted."""
    erasing: int = 0
    """How many compactions must follow until no page has anything of erased keys."""

    def encode(self) -> bytes:
        return seal(_HEAD, VERSION, [*astuple(self)])

    @staticmethod
    def decode(data: bytes) -> Head:
        """Raises CorruptSnapshot."""
        return unseal(data, _HEAD, VERSION, "the head of a shard", _head)


#: The types of the fields of a head, and of a page of ids, in order.
_FIELDS: tuple[Fit, ...] = (
    is_number, str, str, str, is_number, is_number, int, bytes, list, is_number, list, int
)  # fmt: skip
_OF_PAGE: tuple[Fit, ...] = (is_number, is_number, int)


def _head(values: list[Any]) -> Head:
    *fields, pages, since, replaced, erasing = entry("fields", values, *_FIELDS)
    named = tuple(Page(*each) for each in entries("pages of ids", pages, *_OF_PAGE))
    gone = entry("replaced records", replaced, *[is_number] * len(replaced))
    return Head(*[*fields, named, since, gone, erasing])


class ShardLog:
    """The records of a shard. Raises the errors of the store."""

    def __init__(self, store: PageStore, name: str, shard: int) -> None:
        self._store, self._name, self.shard = store, name, shard
        #: What is stored as the head, as far as this process knows.
        self.head: Head | None = None
        self._sealed = b""
        self._fences: list[int] = []
        #: The number of the next record.
        self.next = 0

    def key(self, kind: str, number: int | None = None) -> str:
        """Return the key of a record."""
        end = "" if number is None else f"/{number:012d}"
        return f"service:{self._name}/{kind}/{self.shard}{end}"

    def create(self, fingerprint: bytes) -> bool:
        """Create the shard, without an owner; return whether it did not exist."""
        fence = seal(_EVENTS, VERSION, [0, 0, None])
        self._put(RecordPut(self.key("log", 0), fence, {}))
        head = Head(0, "", "", "", 1, 0, NEVER, fingerprint)
        key = self.key("head")
        return self._put(RecordPut(key, head.encode(), {key: False}))

    def read_head(self) -> Head:
        """Return the head. Raises NotCreated and CorruptSnapshot."""
        return decoded_head(self._store.get_records([self.key("head")])[0], self._name, self.shard)

    def claim(self, before: Head, owner: str, address: str, secret: str) -> None:
        """Become the owner in place of the one in a head. Raises NotOwner."""
        head = replace(before, epoch=before.epoch + 1, owner=owner, address=address, secret=secret)
        self._replace(before, head)
        self._fences, self.next = [], head.position

    def require_owner(self) -> None:
        """Raise NotOwner if another process has claimed the shard; one store call."""
        if self.read_head() != self.head:
            raise NotOwner(f"shard {self.shard} of {self._name} was claimed by another process")

    def release(self) -> None:
        """Give the shard up, so that another process claims it at once."""
        assert self.head is not None
        self._replace(self.head, replace(self.head, owner="", address="", secret=""))

    def _replace(self, before: Head, head: Head) -> None:
        key, sealed = self.key("head"), head.encode()
        if not self._put(RecordPut(key, sealed, {key: before.encode()})):
            self.read_head()  # raises an error if there is none
            raise NotOwner(f"shard {self.shard} of {self._name} was claimed by another process")
        self.head, self._sealed = head, sealed

    def _put(self, put: RecordPut) -> bool:
        """Put a record; return whether it is stored and expectations about others hold.

        The answer of the store may be lost, and its client may then have tried again.
        """
        if self._store.put_records([put])[0]:
            return True
        others = {key: wish for key, wish in put.expected.items() if key != put.key}
        own, *found = self._store.get_records([put.key, *others])
        return own == put.data and all(
            (each is not None) == wish if isinstance(wish, bool) else each == wish
            for each, wish in zip(found, others.values(), strict=True)
        )

    # --- the log ----------------------------------------------------------------------------------

    def replay(self) -> Iterator[list[Any]]:
        """Yield the rows of each record after the state, and end the log with a fence.

        Raises NotOwner, LostRecords and CorruptSnapshot.
        """
        for _ in range(_TRIES):
            numbers = range(self.next, self.next + _AT_ONCE)
            found = self._store.get_records([self.key("log", number) for number in numbers])
            for data in found:
                if data is None:
                    break
                rows = self._rows(data, self.next)
                if rows is None:
                    self._fences.append(self.next)
                else:
                    yield rows
                self.next += 1
            else:
                continue
            if any(found[self.next - numbers[0] :]):
                raise LostRecords(
                    f"record {self.next} of shard {self.shard} of {self._name} is missing, but "
                    "later ones are there: restore a copy of the store that has it"
                )
            if self.append(None):
                self._fences.append(self.next - 1)
                return
        raise NotOwner(f"the log of shard {self.shard} of {self._name} does not end")

    def _rows(self, data: bytes, place: int) -> list[Any] | None:
        def validated(values: list[Any]) -> list[Any] | None:
            fits: tuple[Fit, ...] = (lambda number: number == place, int, lambda _: True)
            if (rows := entry("fields", values, *fits)[2]) is None:
                return None
            times, keys, columns, *ids = entry("rows", rows, *[list] * 5)
            if len({len(column) for column in [times, keys, *columns, *ids]}) > 1:
                raise corrupt("its columns have different lengths")
            return [times, keys, columns, *ids]

        what = f"record {place} of the log of shard {self.shard}"
        return unseal(data, _EVENTS, VERSION, what, validated)

    def append(self, rows: list[Any] | None) -> bool:
        """Put a record of accepted events, or a fence; afterwards, it is durable.

        Return False for a fence whose place is taken. Raises NotOwner, NotCreated and LostRecords.
        After these, and after an error of the store, it is unknown whether the record was put:
        claim the shard again, and replay its log.
        """
        assert self.head is not None
        record = seal(_EVENTS, VERSION, [self.next, self.head.epoch, rows])
        key, before = self.key("log", self.next), self.key("log", self.next - 1)
        expected: dict[str, bytes | bool] = {key: False, before: True}
        expected[self.key("head")] = self._sealed
        if self._put(RecordPut(key, record, expected)):
            self.next += 1
            return True
        head, last = self._store.get_records([self.key("head"), before])
        if decoded_head(head, self._name, self.shard) != self.head:
            raise NotOwner(f"shard {self.shard} of {self._name} was claimed by another process")
        if last is None:
            raise LostRecords(
                f"record {self.next - 1} of shard {self.shard} of {self._name} was acknowledged, "
                "but is missing: restore a copy of the store that has it"
            )
        if rows is not None:
            raise NotOwner(f"another process writes to shard {self.shard} of {self._name}")
        return False

    # --- the state --------------------------------------------------------------------------------

    def state(self) -> bytes | None:
        """Return the snapshot of the windows; None if there is none yet. Raises LostRecords."""
        assert self.head is not None
        return self.page("state", self.head.count) if self.head.count else None

    def page(self, kind: str, number: int) -> bytes:
        """Return a record that the head names. Raises LostRecords."""
        (data,) = self._store.get_records([self.key(kind, number)])
        if data is None:
            raise LostRecords(
                f"{self.key(kind, number)} is missing: restore a copy of the store that has it"
            )
        return data

    def advance(
        self, state: bytes, newest: int, ids: Ids, until: int, now: int,
        changed: Mapping[int, Ids], erasing: int,
    ) -> None:  # fmt: skip
        """Name a new state, which has every event of the log, and delete what it replaces.

        ``ids`` are a new page of ids, for retries up to ``until``. Pages whose time is before
        ``now`` are dropped, and those in ``changed`` have a new content. Raises NotOwner.
        """
        before = self.head
        assert before is not None
        needed = [page for page in before.pages if page.until >= now]
        pages = [page for page in needed if page.number not in changed]
        fresh = [(changed[page.number], page.until) for page in needed if page.number in changed]
        count, contents = before.count, dict[str, bytes]()
        for (digests, answers, size), last in [*fresh, (ids, until)]:
            if size:
                count += 1
                contents |= {self.key("ids", count): digests, self.key("answers", count): answers}
                pages.append(Page(count, size, last))
        count = max(count, before.count + 1)
        contents[self.key("state", count)] = state
        owned = {self.key("head"): self._sealed}
        puts = [RecordPut(key, data, {key: False, **owned}) for key, data in contents.items()]
        if not all(self._store.put_records(puts)):
            self.require_owner()
            raise StoreUnavailable(f"the state of shard {self.shard} was not stored: retry")
        gone = {page.number for page in before.pages if page not in pages}
        since, position = before.position - 1, self.next
        self._replace(before, replace(
            before, position=position, count=count, newest=newest, pages=tuple(pages),
            since=since, replaced=tuple(sorted(gone | {before.count})), erasing=erasing,
        ))  # fmt: skip
        self._delete({*range(since, position - 1)} - {*self._fences}, [before.count], gone)

    def _delete(self, records: Iterable[int], states: Iterable[int], ids: Iterable[int]) -> None:
        self._store.delete_records([
            *(self.key("log", number) for number in sorted(records)),
            *(self.key(kind, number) for number in ids for kind in ("ids", "answers")),
            *(self.key("state", number) for number in states),
        ])  # fmt: skip

    def delete_unnamed(self) -> None:
        """Delete what earlier owners wrote for a head that they did not put, or did not delete."""
        head, old = self.head, list[int]()
        assert head is not None
        numbers = range(head.since, head.position)
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            found = self._store.get_records([self.key("log", number) for number in some])
            for number, data in zip(some, found, strict=True):
                if data is None or self._rows(data, number) is not None:
                    old.append(number)
                else:
                    self._fences.append(number)
        named = {page.number for page in head.pages}
        unnamed = {*head.replaced, *range(head.count + 1, head.count + 2 + len(head.pages))}
        self._delete({*old} - {head.position - 1}, unnamed - {head.count}, unnamed - named)


def decoded_head(data: bytes | None, name: str, shard: int) -> Head:
    """Return the head of a shard. Raises NotCreated and CorruptSnapshot."""
    if data is None:
        raise NotCreated(
            f"the store has no shard {shard} of {name}: create the windows with --create, or, if "
            "they existed, restore a copy of the store: it was emptied"
        )
    return Head.decode(data)
