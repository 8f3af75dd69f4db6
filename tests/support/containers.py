"""Real servers in containers, by testcontainers, where a Docker engine has the image.

Images are not pulled unless ``MTA_TEST_PULL=1``: a test run should not load gigabytes unasked.
``docker/test-redis-image.sh`` makes a Redis image where none can be pulled.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

#: Tried in this order.
REDIS_IMAGES = ("redis:7", "redis:latest", "mta-test-redis:local")


@cache
def engine() -> Any:
    """A client of the Docker engine, or None where none answers."""
    try:
        import docker

        client = docker.from_env(timeout=20)
        client.ping()
    except Exception:  # not installed, no engine, no rights: whatever it is, there is no Docker
        return None
    return client


def has_image(image: str) -> bool:
    """The engine has the image, or was allowed to pull it and could."""
    from docker.errors import DockerException

    if engine() is None:
        return False
    try:
        engine().images.get(image)
        return True
    except DockerException:
        if os.environ.get("MTA_TEST_PULL") != "1":
            return False
    try:
        engine().images.pull(image)
        return True
    except DockerException:
        return False


def redis_image() -> str | None:
    """The image to run Redis from, or None."""
    given = os.environ.get("MTA_TEST_REDIS_IMAGE")
    if engine() is None:
        return None
    return next(filter(has_image, [given] if given else REDIS_IMAGES), None)


@contextmanager
def container(
    image: str | None, command: str | None = None, ports: Mapping[int, int] | None = None
) -> Iterator[str | None]:
    """The host of the running image, its ports (inside: outside) bound to it; None without one.

    An engine without a bridge runs it in this machine's own network: give it equal ports then.
    """
    if image is None or engine() is None or not has_image(image):
        yield None
        return
    from docker.errors import DockerException

    # Its helper container, which removes leftovers, is one more image that would have to be pulled.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from testcontainers.core.container import DockerContainer
    made = DockerContainer(image)
    if command is not None:
        made = made.with_command(command)
    bridged = any(network.name == "bridge" for network in engine().networks.list())
    if bridged:
        for inside, outside in (ports or {}).items():
            made = made.with_bind_ports(inside, outside)
    else:
        made = made.with_kwargs(network_mode="host")
    try:
        made.start()
    except DockerException as error:
        warnings.warn(f"NOT TESTED in a container: {image} does not start: {error}", stacklevel=1)
        made.stop(force=True)
        yield None
        return
    try:
        yield made.get_container_host_ip() if bridged else "127.0.0.1"
    finally:
        made.stop(force=True)
