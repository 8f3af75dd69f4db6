from mta.cli.console import plural, table
from mta.windows.display import human_bytes


def test_table():
    lines = table(("key", "pages"), [("a", "1"), ("long name", "12,000")]).splitlines()
    assert lines == [
        "key         pages",
        "---------  ------",
        "a               1",
        "long name  12,000",
    ]


def test_words_for_numbers():
    assert plural(1, "batch") == "1 batch"
    assert plural(2000, "batch") == "2,000 batches"
    assert plural(0, "key") == "0 keys"
    assert [human_bytes(size) for size in (0, 1023, 1536, 5 << 30)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 GiB",
    ]  # fmt: skip
