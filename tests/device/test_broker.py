"""A real broker: no event is lost or counted twice, however often the device is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mta.device.config import read_config
from mta.device.links import LONGEST, WAITING
from mta.device.loop import Device
from mta.device.windows import DeviceWindows
from tests.support.faulty import eventually
from tests.support.mosquitto import Mosquitto
from tests.support.patience import LONG

KEYS, SIZE = 5, 40
SETTINGS = """
folder = "{folder}"
keys = ["topic", "device"]
time = "ts"
id = "number"
input = "mqtt"
output = "mqtt"
broker = "{url}"
subscribe = "sensors/+"
publish = "windows/{{key}}"
snapshot_every = "{every}"
snapshot_events = {events}
[frames]
few = {size}
all = 1_000_000
[aggregations]
total = ["watts", "sum"]
peak = ["watts", "max"]
n = "count"
[bounds]
high = ["peak_few", "above", 0.97]
"""


def client_of(broker: Mosquitto, name: str) -> Any:
    from paho.mqtt import client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    client = mqtt.Client(CallbackAPIVersion.VERSION2, name, clean_session=False)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    return client


def config(tmp_path: Path, broker: Mosquitto, **settings: Any) -> Path:
    given = {"every": "1 second", "events": 10_000, "size": SIZE, **settings}
    path = tmp_path / "config.toml"
    path.write_text(SETTINGS.format(folder=tmp_path / "state", url=broker.url, **given))
    return path


def device(path: Path, tmp_path: Path) -> subprocess.Popen[bytes]:
    with (tmp_path / "said").open("ab") as said:
        command = [sys.executable, "-m", "mta", "device", str(path)]
        environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=said, env=environment)


class Sensors:
    """Send events of quality of service 1, some of them twice, and remember them."""

    def __init__(self, broker: Mosquitto, seed: int) -> None:
        self.random, self.number = random.Random(seed), 0
        self.client = client_of(broker, "sensors")
        self.sent: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def send(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            key = "sensors/main", f"d{self.random.randrange(KEYS)}"
            event = {"device": key[1], "ts": self.number // 3, "number": self.number,
                     "watts": self.random.random()}  # fmt: skip
            eventually(self.client.is_connected)
            for _ in range(1 + (self.random.random() < 0.1)):
                self.client.publish(key[0], json.dumps(event), qos=1).wait_for_publish(LONG)
            self.sent[key].append(event["watts"])

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def assert_right(path: Path, sensors: Sensors) -> None:
    """The saved windows have each event once."""
    windows = DeviceWindows(read_config(path))
    try:
        assert sorted(windows.windows.keys()) == sorted(sensors.sent)
        for key, values in sensors.sent.items():
            found = windows.windows.query(key)
            assert found["all"]["n"] == len(values)
            assert found["all"]["total"] == pytest.approx(sum(values))
            assert found["few"]["peak"] == max(values[-SIZE:])
    finally:
        windows.windows.close()


def run_to_the_end(
    path: Path, tmp_path: Path, broker: Mosquitto, sensors: Sensors, results: dict[Any, Any]
) -> None:
    """Let a device process everything that is left, and stop it.

    The result of one more event shows the end: a killed device may have sent all others.
    """
    connections = broker.log.read_text().count("as mta-device")
    last = device(path, tmp_path)
    eventually(lambda: broker.log.read_text().count("as mta-device") > connections)
    sensors.send(1)
    seen, still = -1, time.monotonic()
    while (count := sum(map(len, results.values()))) < sensors.number:
        if count > seen:
            seen, still = count, time.monotonic()
        if time.monotonic() > still + 20:  # what is missing is named below
            break
        time.sleep(0.05)
    stop(last, tmp_path)


def stop(running: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Stop a device as systemd does; if it hangs, it says where."""
    running.terminate()
    try:
        status = running.wait(30)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGABRT)
        status = running.wait()
    assert status == 0, (tmp_path / "said").read_text()[-6000:]


def collected(broker: Mosquitto) -> tuple[Any, dict[Any, dict[int, list[Any]]]]:
    """Subscribe to results; return the client, and results by key and number of the event."""
    found: defaultdict[Any, dict[int, list[Any]]] = defaultdict(dict)
    client = client_of(broker, "results")

    def take(_: Any, __: Any, message: Any) -> None:
        result = json.loads(message.payload)
        assert message.topic == "windows/" + "/".join(result["key"])
        if "bound" not in result:
            found[(*result["key"],)].setdefault(result["n_all"], []).append(result)

    client.on_message = take
    client.subscribe("windows/#", qos=1)
    return client, found


def kill_and_continue(tmp_path: Path, broker: Mosquitto, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    sensors = Sensors(broker, seed)
    client, results = collected(broker)
    path = config(tmp_path, broker)
    first = device(path, tmp_path)  # a broker keeps messages for a session that it knows
    eventually(lambda: "mta-device" in broker.log.read_text())
    time.sleep(1)
    running = first
    for number in range(kills):
        path = config(
            tmp_path, broker, every=rng.choice(["0.1 seconds", "0.5 seconds", "10 seconds"]),
            events=rng.choice([1, 7, 10_000]),
        )  # fmt: skip
        sender = threading.Thread(target=sensors.send, args=[rng.choice([5, 30, 60])])
        sender.start()
        time.sleep(rng.uniform(0, 1.5 if number % 4 else 0.1))
        assert running.poll() is None, (tmp_path / "said").read_text()
        running.kill()
        running.wait()
        sender.join()
        running = device(path, tmp_path)
    running.kill()
    running.wait()
    run_to_the_end(path, tmp_path, broker, sensors, results)
    assert_right(path, sensors)
    for key, values in sensors.sent.items():
        assert sorted(results[key]) == [*range(1, 1 + len(values))], "a result is missing"
        for count, several in results[key].items():
            assert {each["peak_few"] for each in several} == {max(values[:count][-SIZE:])}
    sensors.stop()
    client.disconnect()
    client.loop_stop()


def test_a_device_is_killed_a_few_times(tmp_path: Path, broker: Mosquitto) -> None:
    kill_and_continue(tmp_path, broker, kills=6, seed=1)


@pytest.mark.soak
def test_a_device_is_killed_200_times(tmp_path: Path, broker: Mosquitto) -> None:
    kills = int(os.environ.get("MTA_SOAK_KILLS", "200"))
    kill_and_continue(tmp_path, broker, kills, seed=int(os.environ.get("MTA_SOAK_SEED", "7")))


def test_a_broker_that_goes_away_and_comes_back(tmp_path: Path, broker: Mosquitto) -> None:
    path = config(tmp_path, broker)
    running, sensors = device(path, tmp_path), Sensors(broker, 3)
    eventually(lambda: "mta-device" in broker.log.read_text())
    time.sleep(1)
    sensors.send(30)
    broker.stop()
    time.sleep(0.5)
    broker.start()
    sensors.send(30)
    client, results = collected(broker)
    sensors.send(60)
    eventually(lambda: all(len(v) in results[key] for key, v in sensors.sent.items()))
    stop(running, tmp_path)
    assert_right(path, sensors)
    sensors.stop()
    client.loop_stop()


def test_a_retained_message_counts_once_over_restarts(tmp_path: Path, broker: Mosquitto) -> None:
    """It has no time, so it would be a new event each time that the broker sends it."""
    path = config(tmp_path, broker, every="0.1 seconds")
    path.write_text(path.read_text().replace('time = "ts"\nid = "number"\n', ""))
    client = client_of(broker, "sensors")
    topic, message = "sensors/main", json.dumps({"device": "a", "watts": 1})
    client.publish(topic, message, qos=1, retain=True).wait_for_publish(LONG)
    collector, results = collected(broker)
    for counts in ([1], [2, 3], [4, 5]):  # the first event is the retained one
        running = device(path, tmp_path)
        for count in counts:
            if count > 1:
                client.publish(topic, message, qos=1).wait_for_publish(LONG)
            eventually(partial(results[topic, "a"].__contains__, count))
        stop(running, tmp_path)
    windows = DeviceWindows(read_config(path))
    assert windows.windows.query((topic, "a"))["all"]["n"] == 5
    windows.windows.close()
    for each in (client, collector):
        each.disconnect()
        each.loop_stop()


def test_messages_that_a_broker_does_not_hold_back_are_bounded(
    tmp_path: Path, broker: Mosquitto
) -> None:
    """A broker sends all messages of quality of service 0 at once; a slow device drops some."""
    slow = Device(read_config(config(tmp_path, broker)))
    eventually(lambda: "mta-device" in broker.log.read_text())
    time.sleep(1)
    client = client_of(broker, "sensors")
    for _ in range(WAITING + 100):
        client.publish("sensors/main", "{}", qos=0).wait_for_publish(LONG)
    eventually(lambda: ", 100 messages dropped" in slow.status())
    for message in ("x" * LONGEST, "{}"):  # the broker keeps the first to itself
        client.publish("sensors/main", message, qos=0).wait_for_publish(LONG)
    eventually(lambda: ", 101 messages dropped" in slow.status())
    time.sleep(0.2)
    assert ", 101 messages dropped" in slow.status()
    stopping = threading.Event()
    stopping.set()
    slow.run(stopping)
    client.disconnect()
    client.loop_stop()
