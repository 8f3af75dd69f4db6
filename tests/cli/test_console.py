from mta.cli.console import human_duration, plural, table
from mta.times import to_duration
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
    day = 86_400_000_000
    durations = (day, 7 * day, 90 * 60_000_000, 90_000_000, 1_000_000, 1_500_000, 1, 0)
    assert [human_duration(micros) for micros in durations] == [
        "24 hours", "168 hours", "90 minutes", "90 seconds", "1 second", "1.5 seconds",
        "0.000001 seconds", "0 seconds",
    ]  # fmt: skip
    assert all(to_duration(human_duration(micros)) == micros for micros in durations[:-1])
