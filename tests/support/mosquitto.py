"""A real broker of MQTT for tests, on a port of its own, which keeps sessions over restarts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.patience import LONG
from tests.support.servers import OwnServer, free_port


class Mosquitto(OwnServer):
    """A ``mosquitto``; stop it at the end."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
        if found is None:
            pytest.skip("NOT TESTED: no mosquitto: install it (apt-get install mosquitto)")
        pytest.importorskip("paho.mqtt", reason="NOT TESTED: no paho-mqtt: pip install '.[device]'")
        self.port, self.log = free_port(), folder / "mosquitto.log"
        settings = folder / "mosquitto.conf"
        settings.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nmax_queued_messages 0\nuser root\n"
        )
        self.command = [found, "-c", str(settings)]
        self.start()

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop it as a system does, so that it saves its sessions."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(LONG)
