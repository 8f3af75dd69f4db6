"""``mta device``: windows on a device that run by themselves."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser
from pathlib import Path
from threading import Event

from mta.cli.console import InvalidCommand, prints_lines


def add_options(parser: ArgumentParser) -> None:
    """Add the options of ``mta device``."""
    parser.add_argument("config", type=Path, help="the settings, a file of TOML")


def device(config: Path) -> None:
    """Run the windows of a file of settings until the input ends or the process is stopped."""
    from mta.device.config import read_config
    from mta.device.loop import Device

    try:
        settings = read_config(config)
    except OSError as error:
        raise InvalidCommand(f"{config}: {error.strerror}") from error
    stopping = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    running = Device(settings)
    running.run(stopping)
    if prints_lines():
        sys.stderr.write(f"mta: {running.status()}\n")
