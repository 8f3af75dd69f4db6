import pytest

from spark_integration.cli.expressions import described_window
from spark_integration.cli.job import Job, read_job
from spark_integration.errors import InvalidRequest
from stores.address import without_credentials


def job(**options):
    return Job.from_options({"input": ["a.csv"], **options})


def test_options_win_over_the_config_file_and_this_over_the_defaults(tmp_path):
    config = tmp_path / "job.toml"
    config.write_text(
        'key = "device"\nwindow = "1 hour"\nfiles-per-batch = 3\n[agg]\npeak = "max"\n'
    )
    made = job(config=str(config), window="2 hours", key=None)
    assert (made.key, made.window, made.files_per_batch) == ("device", "2 hours", 3)
    assert made.agg == ("peak=max",)
    assert made.on_late == "raise"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "windows = '1 hour'",
            "unknown options windows; it can have input, format, delimiter, quote, encoding",
        ),
        ("on_late = 'ignore'", "on_late is 'ignore': it must be one of raise, drop, side"),
        ("follow = 'yes'", "the option follow cannot be 'yes'"),
        ("agg = [1]", "the option agg cannot be"),
        ("key = ", "is not TOML"),
    ],
)
def test_bad_config_file(tmp_path, text, message):
    config = tmp_path / "job.toml"
    config.write_text(text)
    with pytest.raises(InvalidRequest, match=message):
        job(config=str(config))


def test_missing_config_file(tmp_path):
    with pytest.raises(InvalidRequest, match="No such file"):
        job(config=str(tmp_path / "none.toml"))


def test_contradictions():
    with pytest.raises(InvalidRequest, match="no input"):
        job(input=None)
    with pytest.raises(InvalidRequest, match="not both"):
        job(key="device", key_from_file_name=True)
    with pytest.raises(InvalidRequest, match="at least 1"):
        job(files_per_batch=0)
    with pytest.raises(InvalidRequest, match="--cores must be at least 1"):
        job(cores=0)


def test_the_note_of_a_job_tells_what_has_changed(tmp_path):
    first = job(output=str(tmp_path), key="device", store="redis://me:secret@host:6379/0")
    first.save()
    earlier = read_job(tmp_path)
    assert "secret" not in (tmp_path / "job.json").read_text()
    assert first.differences(earlier) == []
    assert first.replace(plot=False, memory="4g").differences(earlier) == []
    changed = first.replace(window="1 hour", key_from_file_name=True).differences(earlier)
    assert changed == [
        "--key-from-file-name was False and is True",
        "--window was '24 hours' and is '1 hour'",
    ]
    same = ["24h", "1 day", "1440 min", "PT24H"]
    for window in same:
        assert first.replace(window=window).differences(earlier, described_window) == []
    for window in ("25h", "24 events", "session 24h"):
        assert first.replace(window=window).differences(earlier, described_window) != []
    changed = first.replace(on_late="side", idle="expire").differences(earlier)
    assert changed == [
        "--on-late was 'raise' and is 'side'",
        "--idle was 'keep' and is 'expire'",
    ]
    assert first.replace(on_late="drop").differences(earlier) == []
    earlier["idle"] = "emit"
    assert first.replace(idle="expire").differences(earlier) == []
    assert first.differences(earlier) == ["--idle was 'emit' and is 'keep'"]


def test_credentials_leave_the_address():
    assert without_credentials("redis://u:p@ss@host:1/2") == "redis://host:1/2"
    assert without_credentials("file:///a/b@c") == "file:///a/b@c"
