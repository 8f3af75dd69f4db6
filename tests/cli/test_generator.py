import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_integration.cli.demo import Meters, write_stream


def test_the_stream_is_sorted_complete_and_the_same_each_time(tmp_path):
    written = write_stream(tmp_path / "a", 20_000, 7, rows_per_file=5000)
    assert write_stream(tmp_path / "b", 20_000, 7, rows_per_file=5000) == written
    assert 0.9 * 20_000 < written < 20_000  # some reports are lost in outages
    events = pq.read_table(tmp_path / "a")
    assert events.num_rows == written
    assert events.equals(pq.read_table(tmp_path / "b"))
    by_file = [pq.read_table(path)["ts"] for path in sorted((tmp_path / "a").iterdir())]
    assert len(by_file) > 3
    times = [time for file in by_file for time in file.to_pylist()]
    assert times == sorted(times)
    assert pc.count_distinct(events["device"]).as_py() == 7


def test_modification_times_follow_the_order_of_the_files(tmp_path):
    write_stream(tmp_path / "a", 5000, 3, rows_per_file=1000)
    times = [path.stat().st_mtime for path in sorted((tmp_path / "a").iterdir())]
    assert times == sorted(set(times))


def test_one_meter_and_few_events():
    meters = Meters(10, 1)
    assert 0 < meters.events(0, meters.slots).num_rows <= 10
