"""Mistakes in a declaration: each is refused with the file, the line, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from mta.declarations import InvalidDeclaration
from mta.service.declaration import Declaration, read_declaration

GOOD = """
name = "spend"
store = "memory://"
shards = 4
keys = { user = "text", day = "date" }
values = { amount = "float", label = "text", good = "bool", whole = "int" }
time = "ts"
max_ahead = "1 minute"
cache = "1MiB"
on_unavailable = "refuse"

[frames]
minute = "1 minute"
ten = 10

[aggregations]
spent = ["amount", "sum"]
requests = "count"

[limits]
daily = { aggregate = "spent_minute", at_most = 30 }
"""


def declared(folder: Path, text: str) -> Declaration:
    path = folder / "limits.toml"
    path.write_text(text)
    return read_declaration(path)


@pytest.mark.parametrize(
    "aggregation", ['["label", "last"]', '["label", "collect_list"]', '["amount", "top_k(3)"]',
                    '["label", "lag(3)"]', '["amount", "count_min_sketch"]',
                    '["amount", "most_frequent"]'],
)  # fmt: skip
def test_a_limit_needs_a_number(tmp_path: Path, aggregation: str) -> None:
    text = GOOD.replace('spent = ["amount", "sum"]', f"spent = {aggregation}")
    with pytest.raises(InvalidDeclaration, match="spent_minute is not a number") as error:
        declared(tmp_path, text)
    line = text.splitlines().index('daily = { aggregate = "spent_minute", at_most = 30 }') + 1
    assert f"limits.toml:{line}:" in str(error.value)


def test_a_declaration_without_mistakes(tmp_path: Path) -> None:
    found = declared(tmp_path, GOOD)
    assert found.keys == (("user", "string"), ("day", "date"))
    assert found.columns == ["spent_minute", "requests_minute", "spent_ten", "requests_ten"]
    assert found.limits == {"daily": ("spent_minute", 30.0)}
    assert (found.max_ahead, found.cache, found.time) == (60_000_000, 1 << 20, "ts")


#: A line of the good file, what stands there instead, and what the error says about it.
MISTAKES = [
    ('name = "spend"', "name = spend", "this is not TOML"),
    ('name = "spend"', 'name = "two words"', "name is a name of letters, digits, _ and -"),
    ('name = "spend"', "name = 7", "name is a name of letters"),
    ('store = "memory://"', 'store = "folder"', "store is the URL of a store, not 'folder'"),
    ("shards = 4", "shards = 0", "shards is a whole number from 1 to 1024, not 0"),
    ("shards = 4", "shards = 2.5", "shards is a whole number"),
    ("shards = 4", "shards = true", "shards is a whole number"),
    ("shards = 4", "shard = 4", "there is no setting 'shard'; did you mean shards?"),
    ("shards = 4", "zzz = 4", "there is no setting 'zzz': aggregations, "),
    ("keys = {", 'keys = { user = "texts" }', "a key column has the type text, int, date"),
    ("keys = {", 'keys = { user = ["text"] }', "a key column has the type text, int, date"),
    ("keys = {", 'keys = { "the user" = "text" }', "a key column has the type"),
    ("keys = {", 'keys = "user"', "keys is a table"),
    ("keys = {", "keys = {}", "declare a key column"),
    ("keys = {", 'keys = { id = "text" }', "the column 'id' is the id of the event"),
    ("keys = {", 'keys = { amount = "text" }', "the column 'amount' is declared twice"),
    ("values = {", 'values = { amount = "decimal" }', "a value has the type float, int, bool"),
    ("values = {", "values = 3", "values is a table"),
    ('time = "ts"', 'time = "amount"', "the column 'amount' is declared twice"),
    ('time = "ts"', 'time = "id"', "the column 'id' is the id of the event"),
    ('time = "ts"', "time = 3", "time is the name of a column, not 3"),
    ("max_ahead", 'max_ahead = "soon"', "max_ahead"),
    ("max_ahead", 'max_ahead = "-1 second"', "max_ahead"),
    ("max_ahead", 'retry_for = "1 fortnight"', "retry_for"),
    ("max_ahead", 'snapshot_every = ""', "snapshot_every"),
    ("max_ahead", "delay = []", "delay"),
    ("max_ahead", "takeover_after = {}", "takeover_after"),
    ("max_ahead", 'allowed_lateness = "1 second"', "leave out allowed_lateness, or the limits"),
    ("cache", 'cache = "much"', "cache is a size such as 65536, 64KiB or 8MiB, not 'much'"),
    ("cache", "cache = []", "cache is a size"),
    ("on_unavailable", 'on_unavailable = "yes"', "on_unavailable is refuse or admit, not 'yes'"),
    ("on_unavailable", "on_unavailable = []", "on_unavailable is refuse or admit"),
    ('minute = "1 minute"', 'minute = "1 moment"', "moment"),
    ('minute = "1 minute"', "minute = 1.5", "a frame is a duration or a number of events, not 1.5"),
    ('minute = "1 minute"', "minute = false", "a frame is a duration or a number of events"),
    ('minute = "1 minute"', 'minute = "0 seconds"', "longer than 0"),
    ("ten = 10", "ten = 0", "at least 1"),
    ("ten = 10", '"the ten" = 10', "the name of a frame has letters, digits and _"),
    ("ten = 10", "minute = 10", "this is not TOML"),
    ("spent =", 'spent = ["amounts", "sum"]', "there is no value 'amounts'; declare it in values"),
    ("spent =", 'spent = ["amount", "total"]', "total"),
    ("spent =", 'spent = ["amount", 3]', 'an aggregation is ["amount", "sum"], or "count"'),
    ("spent =", 'spent = ["label", "sum"]', "cannot be read as float64"),
    ("spent =", 'spent = ["label", "string_agg(3)"]', "the arguments of 'string_agg(3)' do not"),
    ("spent =", 'spent = ["label", "collect_list(3)"]', "the arguments of 'collect_list(3)'"),
    ("spent =", "spent = []", "an aggregation is"),
    ("spent =", "spent = [[1], 2]", "there is no value [1]"),
    ("spent =", 'spent = { amount = "sum" }', "an aggregation is"),
    ("requests =", 'requests = "sum"', "names 0 column"),
    ("daily =", 'daily = { aggregate = "spent_day", at_most = 3 }', "there is no aggregate 'spen"),
    ("daily =", 'daily = { aggregate = ["x"], at_most = 3 }', "there is no aggregate ['x']"),
    ("daily =", 'daily = { aggregate = "spent_minute" }', "a limit is { aggregate ="),
    ("daily =", "daily = 30", "a limit is { aggregate ="),
    ("daily =", 'daily = { aggregate = "spent_minute", at_most = "x" }', "at_most is a number"),
    ("daily =", 'daily = { aggregate = "spent_minute", at_most = true }', "at_most is a number"),
    ("daily =", 'daily = { aggregate = "spent_minute", at_most = nan }', "at_most is a number"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "mistake", "said"), MISTAKES)
def test_a_mistake_is_named_with_its_line(
    tmp_path: Path, line: str, mistake: str, said: str
) -> None:
    lines = GOOD.splitlines()
    place = next(at for at, each in enumerate(lines) if each.startswith(line))
    lines[place] = mistake
    with pytest.raises(InvalidDeclaration) as found:
        declared(tmp_path, "\n".join(lines))
    message = str(found.value)
    assert said in message
    assert message.startswith(f"{tmp_path / 'limits.toml'}:{place + 1}: "), message


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("name =", "give name"), ("store =", "give store"), ("keys =", "declare a key column"),
        ("frames", "declare a frame"), ("aggregations", "declare an aggregation"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(tmp_path: Path, without: str, said: str) -> None:
    parts = GOOD.split("\n\n") if without in ("frames", "aggregations") else GOOD.split("\n")
    joint = "\n\n" if without in ("frames", "aggregations") else "\n"
    kept = [each for each in parts if not each.strip("\n[").startswith(without)]
    if without in ("frames", "aggregations"):
        kept = [each for each in kept if "[limits]" not in each]
    with pytest.raises(InvalidDeclaration, match=said):
        declared(tmp_path, joint.join(kept))


def test_a_secret_in_the_url_of_the_store_is_in_no_message(tmp_path: Path) -> None:
    text = GOOD.replace("memory://", "redis://:hunter2@localhost")
    assert "hunter2" not in repr(declared(tmp_path, text))
    with pytest.raises(InvalidDeclaration) as found:
        declared(tmp_path, text.replace("shards = 4", "shards = 0"))
    assert "hunter2" not in str(found.value)
