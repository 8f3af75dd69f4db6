"""A spend limit for an API gateway: four gateways share exact limits over a minute, a day, a month.

``mta serve`` runs with two workers, and four processes are the gateways. Each asks before it lets a
request pass: adding the cost and checking the limits is one step. In the middle, the service is
killed and started again; the gateways only notice that answers take longer. At the end, the answers
of all gateways are compared with a list of what was spent.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

from mta.client import Client

HERE = Path(__file__).parent
LIMITS = {"per_minute": 60, "per_day": 2000}


def serve(config: Path, port: int) -> subprocess.Popen[bytes]:
    """Start the service, in a group of processes of its own."""
    command = [sys.executable, "-m", "mta", "serve", "--config", str(config), "--create"]
    command += ["--workers", "2", "--port", str(port)]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    for _ in range(600):
        try:
            urlopen(f"http://127.0.0.1:{port}/healthz").close()
        except OSError:  # refused, or reset by a worker that starts
            time.sleep(0.1)
        else:
            return service
    raise SystemExit("the service did not start")


def gateway(url: str, number: int, requests: int, users: int) -> None:
    """Be one gateway, and print each answer as a line of JSON."""
    random = Random(number)
    with Client(url, retry_for=120) as client:
        for _ in range(requests):
            user, cents = f"user-{random.randrange(users)}", random.choice([5, 20, 80])
            answer = client.add({"user": user, "cents": cents})
            line = {"user": user, "cents": cents, "limit": answer.limit, **answer.values}
            print(json.dumps(line), flush=True)


def check(answers: list[dict[str, Any]]) -> int:
    """Compare all answers with a list for each user; return how many requests were refused."""
    by_user: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for answer in answers:
        by_user[answer["user"]].append(answer)
    for user, given in by_user.items():
        spent = 0
        passed = sorted(
            (each for each in given if not each["limit"]), key=lambda each: each["requests_month"]
        )
        for number, answer in enumerate(passed, 1):
            spent += answer["cents"]
            assert answer["requests_month"] == number, f"{user}: lost or counted twice"
            assert answer["spent_month"] == spent
            assert answer["spent_day"] <= LIMITS["per_day"]
            assert answer["requests_minute"] <= LIMITS["per_minute"]
        for answer in given:
            over = {
                "per_minute": answer["requests_minute"] > LIMITS["per_minute"],
                "per_day": answer["spent_day"] > LIMITS["per_day"],
            }
            assert over[answer["limit"]] if answer["limit"] else not any(over.values())
    return sum(bool(each["limit"]) for each in answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="default: a temporary folder")
    parser.add_argument("--requests", type=int, default=500, help="the requests of each gateway")
    parser.add_argument("--users", type=int, default=6)
    parser.add_argument("--gateway", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.gateway:
        url, number = options.gateway
        gateway(url, int(number), options.requests, options.users)
        return
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
        probe.close()
        config = Path(folder, "limits.toml")
        store = options.store or Path(folder, "pages").as_uri()
        config.write_text((HERE / "limits.toml").read_text().replace("STORE", store))
        run(options, config, port)


def run(options: argparse.Namespace, config: Path, port: int) -> None:
    """Run the service and the gateways, and check the answers."""
    service = serve(config, port)
    gateways = []
    try:
        for number in range(4):
            command = [sys.executable, __file__, "--gateway", f"http://127.0.0.1:{port}"]
            command += [str(number), "--requests", str(options.requests)]
            command += ["--users", str(options.users)]
            gateways.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        first = [each.stdout.readline() for each in gateways if each.stdout is not None]
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()
        print("killed    the service, both workers")
        service = serve(config, port)
        answers = [json.loads(line) for line in first]
        for each in gateways:
            out, _ = each.communicate()
            assert each.returncode == 0
            answers += map(json.loads, out.splitlines())
        refused = check(answers)
        print(f"requests  {len(answers):,} from four gateways, {refused:,} refused")
        print("no limit was exceeded, and every answer equals a list")
    finally:
        for each in gateways:
            each.kill()
        os.killpg(service.pid, signal.SIGTERM)
        service.wait()


if __name__ == "__main__":
    main()
