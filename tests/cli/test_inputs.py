"""What stands in files is what the windows get: one line per case, through Spark's own workers."""

import csv
import gzip
import io
import json
import os
import tracemalloc
from datetime import date, time
from decimal import Decimal
from itertools import pairwise

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta.cli import main
from mta.cli.console import ProgressLine
from spark_integration.cli import readers, stream
from spark_integration.cli.job import Job
from spark_integration.cli.progress import HELD_PAGES, Progress, spark_errors
from spark_integration.cli.readers import FileLayout, read_chunks
from spark_integration.cli.sources import open_source, resolve_columns
from spark_integration.cli.stream import read_input
from stores import MemoryStore
from stores.errors import WindowStoreError
from stores.write_buffer import WriteBuffer
from tests.support.console import mta

AT = "2024-01-01 00:00:00"
HEAD = "k,ts,v\n"


def table(*rows):
    """Rows of one file as CSV, whose key, time and value are k, ts and v."""
    return HEAD + "".join(f"{key},{AT},{value}\n" for key, value in rows)


def parquet(**columns):
    sink = io.BytesIO()
    pq.write_table(pa.table({"ts": pa.array([AT] * len(columns["v"])), **columns}), sink)
    return sink.getvalue()


def rows_of(spark, folder, files, **options):
    """The keys and values that a run reads from files of these names and contents, in order."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    named = options.pop("inputs", None) or [""]
    job = Job(
        input=tuple(str(folder / name) for name in named),
        **{"key": "k", "value": ("v",), **options},
    )
    source = open_source(job)
    job = resolve_columns(job, source)
    rows = read_input(spark, job, source).collect()
    assert all(row[1] is None or row[1].year in (2024, 2023) for row in rows), rows
    return sorted((tuple(row[0:1]) + tuple(row[2:]) for row in rows), key=repr)


ONE = [("a", 1.0)]
TWO = [("a", 1.0), ("b", 2.0)]


def case(content, expected=ONE, *, name="a.csv", **options):
    """What is in files, the options of a run, and what it reads or says of them."""
    return (content if isinstance(content, dict) else {name: content}), options, expected


def with_times(*times, **columns):
    return parquet(k=["a"] * len(times), v=[1] * len(times), ts=pa.array(times), **columns)


#: What is in the files, the keys and values that are right (one by default), and the options.
READ = {
    "quotes are doubled": case(f'k,ts,note,v\na,{AT},"size ""L"", 5, red",7\n', [("a", 7.0)]),
    "newlines in quotes": case(HEAD + f'"a\nb",{AT},1\n', [("a\nb", 1.0)]),
    "a backslash is a character": case(HEAD + f'"a\\",{AT},1\n', [("a\\", 1.0)]),
    "keys lose their quotes": case(table(('"a"', 1), ("a", 2)), [("a", 1.0), ("a", 2.0)]),
    "ends of lines of any kind": case(table(("a", 1)).replace("\n", "\r\n")),
    "a byte order mark": case("\ufeff" + table(("a", 1))),
    "semicolons": case(table(("a", 1)).replace(",", ";"), delimiter=";"),
    "tabs": case(table(("a", 1)).replace(",", "\t"), delimiter="\\t"),
    "other quotes": case(HEAD + f"'a,b',{AT},1\n", [("a,b", 1.0)], quote="'"),
    "no quotes": case(table(('5"', 1)), [('5"', 1.0)], quote=""),
    "Latin-1": case(table(("è", 1)).encode("latin-1"), [("è", 1.0)], encoding="latin-1"),
    "UTF-16": case(table(("é", 1)).encode("utf-16"), [("é", 1.0)], encoding="utf-16"),
    "suffixes in any case": case(
        {"A.CSV": table(("a", 1)), "c.Csv.GZ": gzip.compress(table(("b", 2)).encode())}, TWO
    ),
    "a named file of any suffix": case(
        table(("a", 1)), name="x.tsv", format="csv", inputs=["x.tsv"]
    ),
    "columns in another order": case(
        {"a.csv": table(("a", 1)), "b.csv": f"v,k,ts\n2,b,{AT}\n"}, TWO
    ),
    "folders keep their zeros": case(
        {f"k={key}/a.csv": f"ts,v\n{AT},{at}\n" for at, key in enumerate(("7", "007", "7.0"))},
        [("007", 1.0), ("7", 0.0), ("7.0", 2.0)],
    ),
    "folders of Parquet keep their zeros": case(
        {f"k={key}/a.parquet": parquet(v=[value]) for key, value in (("7", 1.0), ("007", 2.0))},
        [("007", 2.0), ("7", 1.0)],
    ),
    "JSON lines": case(
        f'{{"k":"007","ts":"{AT}","v":1}}\n\n{{"k":7,"ts":"{AT}","v":"2"}}\n',
        [("007", 1.0), ("7", 2.0)], name="a.jsonl",
    ),
    "a JSON array": case(
        json.dumps([{"k": "a", "ts": AT, "v": 1}, {"k": "b", "ts": AT, "v": 2.0}], indent=1),
        TWO, name="a.json",
    ),
    "seconds as text": case('{"k":"a","ts":"1704067200","v":1}', name="a.json"),
    "milliseconds in CSV": case(HEAD + "a,1704067200000,1\n"),
    "nanoseconds in Parquet": case(with_times(1704067200 * 10**9), name="a.parquet"),
    "a form of its own": case(HEAD + "a,20240131,1\n", time_format="yyyyMMdd"),
    "Parquet text": case(parquet(k=["a", "b"], v=["1", " 2e0 "]), TWO, name="a.parquet"),
    "int and double": case(
        {"a.parquet": parquet(k=["a"], v=[1]), "b.parquet": parquet(k=["b"], v=[2.0])}, TWO
    ),
    "narrow and wide keys": case(
        {"a.parquet": parquet(k=pa.array([1], "int8"), v=[1]),
         "b.parquet": parquet(k=[2**40], v=[2])},
        [(1, 1.0), (2**40, 2.0)],
    ),
    "times of day are carried as text": case(
        with_times(AT, note=pa.array([time(1, 2)], "time32[ms]")),
        [("a", 1.0, "01:02:00.000")], name="a.parquet", carry=("note",),
    ),
    "dates": case(with_times(date(2024, 1, 1)), name="a.parquet"),
    "dictionaries": case(
        parquet(k=pa.array(["a", "b"]).dictionary_encode(), v=[1, 2]), TWO, name="a.parquet"
    ),
    "an aggregation of a column with parentheses": case(
        f"k,ts,kW (net)\na,{AT},1\n", agg=("peak=kW (net):max",), value=()
    ),
    "a value with parentheses": case(f"k,ts,kW (net)\na,{AT},1\n", value=("kW (net)",)),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_reads(spark, tmp_path, case):
    files, options, expected = READ[case]
    assert rows_of(spark, tmp_path, files, **options) == expected


def test_numbers_are_those_of_python_without_underscores(spark, tmp_path):
    texts = ["7", " 7 ", "+7", "-.5", "7.", "1e3", "inf", "nan", "", "72F", "3d", "0x1p4", "1_000",
             "1,5", "٣", "7 W", "true", "Infinity", "1e999"]  # fmt: skip
    expected = {}
    for text in texts:
        try:
            number = float(text if "_" not in text and text != "1e999" else "no number")
            expected[text] = None if number != number else number
        except ValueError:
            expected[text] = None
    rows = [{"k": f"<{text}>", "ts": AT, "v": text} for text in texts]
    sheet = io.StringIO(newline="")
    writer = csv.DictWriter(sheet, ["k", "ts", "v"])
    writer.writeheader()
    writer.writerows(rows)
    lines = "\n".join(map(json.dumps, rows))
    column = parquet(k=[f"<{text}>" for text in texts], ts=[AT] * len(texts), v=texts)
    wanted = {f"<{text}>": number for text, number in expected.items()}
    for name, content in (("a.csv", sheet.getvalue()), ("a.json", lines), ("a.parquet", column)):
        folder = tmp_path / name[2:]
        got = rows_of(spark, folder, {name: content}, on_invalid="drop")
        assert dict(got) == wanted, name


BAD_BYTES = table(*[("a", 1)] * 40_000).encode() + f"Gen\xe8ve,{AT},1\n".encode("latin-1")
#: What is in the files, what the error says, before Spark starts or in it, and the options.
REFUSED = {
    "semicolons": case(
        table(("a", 1)).replace(",", ";"), r"one cell, 'k;ts;v': give --delimiter ';'"
    ),
    "tabs": case(table(("a", 1)).replace(",", "\t"), r"give --delimiter '\\t'"),
    "bytes beyond the sample": case(
        BAD_BYTES, r"a\.csv, line 40002: the bytes b'\\xe8ve,' are not utf-8"
    ),
    "bytes of JSON": case(
        b'{"k":"\xe8"}', r"a\.json, line 1: the bytes .*--encoding", name="a.json"
    ),
    "an open quote": case(
        table(("a", 1), ('"b', 2), ("c", 3)),
        r"a\.csv, the row that starts in line 3: unexpected end",
    ),
    "text after a quote": case(table(('"b"c', 2)), r"a\.csv, the row that starts in line 2"),
    "too few cells": case(
        table(("a", 1)) + "b,1\n",
        r"a\.csv, line 3: the row cannot be read: 'cells 2, columns 3'",
    ),
    "no JSON": case(
        f'{{"k":"a","ts":"{AT}","v":1}}\nnope\n',
        r"a\.jsonl, line 2: the row cannot be read: 'nope", name="a.jsonl",
    ),
    "no number": case(table(("a", 1), ("a", "72F")), r"a\.csv, line 3: v is not a number: '72F'"),
    "no number in Parquet": case(
        parquet(k=["a", "b"], v=["1", "x"]),
        r"a\.parquet, row 2: v is not a number: 'x'", name="a.parquet",
    ),
    "no time in Parquet": case(
        with_times(*[AT] * 1400, *["31/01/2024"] * 100),
        r"a\.parquet, row 1401: ts cannot be read as a time: '31/01/2024'", name="a.parquet",
    ),
    "no key": case(
        table(("a", 1), ("", 2)), r"a\.csv, line 3: no k; correct it, or .*--on-invalid drop"
    ),
    "a missing column": case(
        {"a.csv": table(("a", 1)), "b.csv": "k,ts\n"},
        r"b\.csv has no column 'v'; its columns are 'k', 'ts'",
    ),
    "a column twice": case(f"k,ts,v,v\na,{AT},1,2\n", r"a\.csv has several columns 'v'"),
    "a packed file cut off": case(
        gzip.compress(table(*[("a", 1)] * 9999).encode())[:-9],
        r"a\.csv\.gz cannot be read as csv .*truncated", name="a.csv.gz",
    ),
    "a Parquet file cut off": case(
        {"a.parquet": parquet(k=["a"], v=[1]), "b.parquet": parquet(k=["a"], v=[1])[:-9]},
        r"b\.parquet cannot be read as parquet",
    ),
    "times of day": case(
        parquet(k=["a"], v=[1], ts=pa.array([time(1)], "time32[ms]")),
        r"--time 'ts' contains time32\[ms\], not.*in one column", name="a.parquet",
    ),
    "a type unknown to Spark": case(
        parquet(k=["a"], v=[1], n=pa.array([[1]], pa.list_(pa.uint64()))),
        r"the column 'n' contains list<.*>, a type that Spark does not know",
        name="a.parquet", carry=("n",),
    ),
    "keys of two kinds": case(
        {"a.parquet": parquet(k=[7], v=[1]), "b.parquet": parquet(k=["007"], v=[1])},
        r"\.parquet: the column 'k' contains (string|int64), but .* in the first file",
    ),
    "a number beyond doubles": case(
        table(("a", 1), ("a", "1e400")), r"line 3: v is not a number: '1e400'"
    ),
    "a number of JSON beyond doubles": case(
        "".join(f'{{"k":"a","ts":"{AT}","v":{v}}}\n' for v in (1, "-1e999999")),
        r"v is not a number: '-1e999999'", name="a.json",
    ),
    "a point beside decimal commas": case(
        f"k;ts;v\na;{AT};20,97\na;{AT};1.000,5\n", r"line 3: v is not a number: '1\.000,5'",
        delimiter=";", decimal=",",
    ),
    "an encoding of nobody": case(HEAD, "--encoding 'utf-99' is unknown", encoding="utf-99"),
    "a delimiter of two": case(HEAD, "--delimiter '::': give one character", delimiter="::"),
    "a quote of two": case(HEAD, "--quote \"''\": give one character", quote="''"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_by_name(spark, tmp_path, case):
    files, options, message = REFUSED[case]
    with pytest.raises(WindowStoreError, match=message), spark_errors():
        rows_of(spark, tmp_path, files, **options)


CELL = st.text(st.sampled_from("a\"\\,;\n\r\té€𝄞 '|") | st.characters(codec="utf-8"), max_size=6)


@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(CELL, CELL, CELL), max_size=9),
    delimiter=st.sampled_from(",;\t|"),
    quote_all=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "gb18030"]),
    size=st.integers(1, 4),
)
def test_reads_what_python_writes(
    tmp_path_factory, rows, delimiter, quote_all, end, encoding, size
):
    # Of minimal quotes Python's own writer leaves out those of a CR that does not end its lines.
    quoting = csv.QUOTE_ALL if quote_all or end != "\r\n" else csv.QUOTE_MINIMAL
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)
        writer.writerows([("x", "y", "z"), *rows])
    chunks = list(read_chunks(path, FileLayout("csv", delimiter, '"', encoding), ["z", "x"], size))
    got = [pair for chunk in chunks for pair in zip(*chunk.columns.values(), strict=True)]
    assert got == [(z or None, x or None) for x, _, z in rows]
    assert not any(chunk.malformed for chunk in chunks)


MIB = 1 << 20


def packed(start, piece, end=b""):
    """A gigabyte as gzip: members with 16 MiB of a piece each."""
    member = gzip.compress(piece * (16 * MIB // len(piece)), 1)
    return gzip.compress(start) + member * 64 + gzip.compress(end)


#: Files of few bytes on disk that are gigabytes in memory: name, content, and what the error says.
BOMBS = {
    "one line of zeros": ("a.csv", None, "16 MiB in one line"),
    "one header": ("a.csv.gz", packed(b"", b"a,"), "16 MiB in one line"),
    "one row": ("a.csv.gz", packed(b"ts,watts\n1,2\n", b"3"), "16 MiB in one line"),
    "one cell with line breaks": ("a.csv.gz", packed(b'ts,watts\n1,"', b"3\n"), "close its quotes"),
    "one line of JSON": ("a.json.gz", packed(b'{"ts":1}\n{"ts":"', b"3"), "16 MiB in one line"),
    "one array on a line": ("a.json.gz", packed(b" [", b"{},"), "128 MiB in a JSON array"),
    "one array on many lines": ("a.json.gz", packed(b"[\n", b"{},\n"), "128 MiB in a JSON array"),
    "one deep array": ("a.json.gz", packed(b"", b"["), "128 MiB in a JSON array"),
    "one line of JSON of zeros": ("a.json", None, "16 MiB in one line"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_input_that_does_not_fit_in_memory_is_refused_in_little_memory(tmp_path, case, capsys):
    name, content, says = BOMBS[case]
    path = tmp_path / name
    path.write_bytes(content or b"")
    if content is None:
        os.truncate(path, 1 << 30)
    tracemalloc.start()
    try:
        # No Spark is started for it.
        assert main(["run", str(path), "--output", str(tmp_path / "out")]) == 2
        assert tracemalloc.get_traced_memory()[1] < 600 * MIB
    finally:
        tracemalloc.stop()
    error = capsys.readouterr().err
    assert says in error and name in error


def test_chunks_have_few_bytes(tmp_path, monkeypatch):
    """However long the rows are."""
    monkeypatch.setattr(readers, "CHUNK_BYTES", MIB)
    rows = [f"{at},{at % 10}{'0' * 100_000}" for at in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["ts,x", *rows]))
    objects = [json.dumps({"ts": at, "x": "0" * 100_000}) for at in range(60)]
    (tmp_path / "a.json").write_text("\n".join(objects))
    for name, kind in (("a.csv", "csv"), ("a.json", "json")):
        chunks = [*read_chunks(tmp_path / name, FileLayout(kind))]
        assert 4 <= len(chunks) <= 12
        assert [int(at) for chunk in chunks for at in chunk.columns["ts"]] == [*range(60)]


def test_json_of_any_depth_is_a_cell_or_a_row_with_a_reason(tmp_path):
    for depth in [1, 10, *range(150, 1100, 31), 3000, 100_000]:
        for opening, closing in (('{"x":' * depth, "}" * depth), ("[" * depth, "]" * depth)):
            (tmp_path / "a.json").write_text(f'{{"ts":1,"x":{opening}7{closing}}}\n{{"ts":2}}\n')
            (chunk,) = read_chunks(tmp_path / "a.json", FileLayout("json"), ["ts", "x"])
            assert chunk.columns["ts"][1] == "2"
            assert chunk.columns["ts"][0] == "1" or "recursion" in chunk.malformed[0]
            (tmp_path / "b.json").write_text(f"[{opening}7{closing},1]")
            try:
                (chunk,) = read_chunks(tmp_path / "b.json", FileLayout("json"), ["ts"])
                assert len(chunk.rows) == 2
            except WindowStoreError as error:
                assert "not a JSON array" in str(error)


def test_dropped_rows_are_counted_by_reason_with_the_first_example(tmp_path, spark):
    source = tmp_path / "in"
    source.mkdir()
    lines = [f"a,{AT},1", f",{AT},2", "a,,3", "a,soon,4", "a,later,4", f"a,{AT},oops", f"a,{AT},",
             f"a,{AT}", f"b,{AT},5", f"a,{AT},-1"]  # fmt: skip
    (source / "1.csv").write_text(HEAD + "\n".join(lines) + "\n")
    (source / "2.csv").write_text(table(("a", "oops")))
    out = tmp_path / "out"
    command = ("run", source, "--key", "k", "--agg", "g=v:geomean", "--output", out, "--no-plot")
    printed = mta(*command, "--on-invalid", "drop", "--nulls", "drop_row").out
    first = source / "1.csv"
    for line in [
        "invalid   9 rows, dropped",
        f"1 x the row cannot be read, first in {first}, line 9: 'cells 2, columns 3'",
        f"1 x no k, first in {first}, line 3\n",
        f"1 x no ts, first in {first}, line 4\n",
        f"1 x no v, first in {first}, line 8\n",
        f"2 x ts cannot be read as a time, first in {first}, line 5: 'soon'",
        f"2 x v is not a number, first in {first}, line 7: 'oops'",
        "1 x a value that an aggregation does not accept",
    ]:
        assert line in printed
    assert "file 0 of 2 done" in printed
    assert sorted(pd.read_parquet(out / "results")["v"]) == [1.0, 5.0]


def test_a_run_that_fails_says_what_to_do_and_goes_on(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    command = ("run", source, "--key", "k", "--output", out, "--no-plot", "--files-per-batch", 1)
    (source / "1.csv").write_text(table(("a", 1)))
    (source / "2.csv").write_text(table(("a", "oops")))
    os.utime(source / "1.csv", (1_000, 1_000))
    error = mta(*command, code=2).err
    assert f"mta: InvalidInput: {source / '2.csv'}, line 2: v is not a number: 'oops'" in error
    assert "start the same command again" in error
    (source / "2.csv").write_text(table(("a", 2)))
    assert "file 1 of 2 done" in mta(*command).out
    assert sorted(pd.read_parquet(out / "results")["v"]) == [1.0, 2.0]


def test_a_run_of_which_no_row_can_be_used_fails(tmp_path):
    (tmp_path / "1.csv").write_text(table(("a", 1)).replace("a", ""))
    command = ("run", tmp_path / "1.csv", "--key", "k", "--value", "v", "--on-invalid", "drop")
    done = mta(*command, "--output", tmp_path / "out", "--no-plot", code=2)
    assert "none of the 1 row could be used" in done.err


def test_progress_names_files_rows_rate_and_time_left():
    progress = Progress(files=2, all_files=10)
    progress.files, progress.rows, progress.seconds = 5, 3_000, 30.0
    assert progress.line() == "file 5 of 10 done, 3,000 rows, 100 rows/s, about 50 s left"
    progress = Progress(rows=1, seconds=1.0)
    assert progress.line() == "file 0 done, 1 row, 1 rows/s"


def test_without_a_terminal_progress_is_a_line_per_ten_seconds(capsys):
    line = ProgressLine()
    for second in range(41):
        line.show(f"after {second} s", second)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"after {second} s" for second in (0, 10, 20, 30, 40)]


def test_a_failed_run_does_not_promise_that_pages_are_sent_later():
    cause = str(WriteBuffer(MemoryStore(), deadline=1)._unavailable("refused"))
    assert "held" in cause
    assert HELD_PAGES.sub("", cause).endswith("has accepted no page for 1 s (refused)")


def test_a_large_parquet_file_is_read_in_parts(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "PART_BYTES", 1)  # workers have their own: row groups suffice
    monkeypatch.setattr(stream, "LARGE_FILE", 1)
    rows = pa.table({"k": ["a"] * 10, "ts": [AT] * 10, "v": list(range(10))})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=3)
    listed = pa.RecordBatch.from_pydict({"path": [f"file:{tmp_path}/a.parquet"]})
    parts = [part for batch in readers.split_files([listed]) for part in batch.to_pylist()]
    groups = [range(part["first"], part["end"]) for part in parts]
    assert groups == [range(1), range(1, 2), range(2, 3), range(3, 4)]
    pieces = [
        read_chunks(tmp_path / "a.parquet", FileLayout("parquet"), ["v"], 2, part)
        for part in groups
    ]
    assert [row for chunks in pieces for chunk in chunks for row in chunk.rows] == [*range(1, 11)]
    assert rows_of(spark, tmp_path, {}) == [("a", float(value)) for value in range(10)]


def test_decimals_stay_exact(tmp_path):
    """Of any number of digits; sums of doubles would be rounded."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    prices = [Decimal("0.10"), Decimal("90071992547409.93"), Decimal("0.01"), None]
    large = [Decimal(10) ** 27 + each for each in (1, 2, 3, 4)]
    pq.write_table(pa.table({
        "ts": pa.array([f"2024-01-01 00:00:0{at}" for at in range(4)]),
        "price": pa.array(prices, pa.decimal128(18, 2)),
        "large": pa.array(large, pa.decimal128(30, 0)),
    }), source / "1.parquet")  # fmt: skip
    command = ("run", source, "--time", "ts", "--agg", "sum=price:sum", "--agg", "top=large:max",
               "--agg", "total=large:sum", "--window", "2 events", "--output", out, "--no-plot",
               "--write", "parquet")  # fmt: skip
    mta(*command)
    rows = pq.read_table(out / "results").sort_by("ts").to_pydict()
    windows = [prices[max(0, at - 1) : at + 1] for at in range(4)]
    assert rows["sum"] == [sum(filter(None, each)) for each in windows]
    assert rows["price"] == prices and rows["top"] == large
    assert rows["total"] == [large[0], *(a + b for a, b in pairwise(large))]
    mta("check", out)
    doubles = {"price": [0.5], "large": [1.0], "ts": ["2024-01-01 00:00:09"]}
    pq.write_table(pa.table(doubles), source / "2.parquet")
    assert "contains double, but decimal128(18, 2) in the first file" in mta(*command, code=2).err
