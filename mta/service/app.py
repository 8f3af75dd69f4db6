"""The paths that take events, beside those of ``mta.serve``, and their application.

A request of one row is answered by its outcome: 200 with the aggregates, or the problem. A request
of many rows is answered by 200 with an outcome for each row, in the order of the rows.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mta.errors import InvalidTime, InvalidValue, MissingDependency, UnsuitableKey
from mta.serve.answers import (
    ARROW,
    JSON,
    PROBLEM_JSON,
    Problem,
    arrow_response,
    form_of,
    json_response,
)
from mta.serve.app import More, create_app, route
from mta.serve.requests import body_of, parameters, query_of, raw_body_of
from mta.serve.settings import ServerSettings
from mta.service.commits import Task
from mta.service.declaration import read_declaration
from mta.service.openapi import paths_of
from mta.service.owners import Owners
from mta.service.rows import Rows
from mta.service.shard import Outcome

logger = logging.getLogger(__name__)
NDJSON = "application/x-ndjson"
#: How many refused events the page shows.
_RECENT = 50
#: The problems of events that ``on_unavailable = "admit"`` admits.
_AWAY = {"StoreUnavailable", "LostRecords", "ShardFailed", "OutcomeUnknown"}


class EventPaths:
    """The answers of the paths that take events."""

    def __init__(self, owners: Owners, settings: ServerSettings) -> None:
        self._owners, self._settings = owners, settings
        self._recent: deque[dict[str, Any]] = deque(maxlen=_RECENT)

    async def erase(self, request: Request) -> Response:
        """``POST /v1/erase``: erases keys, with all their events and answers."""
        parameters(request)
        form_of(request, JSON)
        body = await body_of(request, self._settings.max_body, self._settings.time_limit)
        if unknown := body.keys() - {"keys"}:
            detail = f"There is no field {min(unknown)!r:.40}; the only field is keys."
            raise Problem("InvalidRequest", detail)
        rows = self._owners.rows
        given = query_of(body, rows.form, self._settings.max_keys).keys or []
        keys = [rows.plain(key) for key in given]
        await self._owners.send(Rows.of_keys(keys), "erase")
        left = [each for each in self._recent if each["key"] not in keys]
        self._recent.clear()
        self._recent.extend(left)
        return json_response({"erased": len(keys)})

    async def _answer(self, task: Task, request: Request) -> Response:
        """``POST /v1/events`` and ``/v1/check``: adds events, or answers as if they were added."""
        parameters(request)
        content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content not in (JSON, NDJSON, ARROW):
            raise Problem("UnsupportedMediaType", f"Send {JSON}, {NDJSON} or {ARROW}.")
        forms = {JSON: (JSON,), NDJSON: (NDJSON, JSON), ARROW: (ARROW, JSON)}[content]
        form = form_of(request, *forms)
        body = await raw_body_of(request, self._settings.max_body, self._settings.time_limit)
        rows, is_many = self._read(content, body)
        if not rows:
            raise Problem("InvalidRequest", "Send at least one event.")
        if len(rows) > self._settings.max_keys:
            most = self._settings.max_keys
            raise Problem("TooManyKeys", f"A request can have at most {most} events: split it.")
        try:
            outcomes = await self._owners.send(rows, task)
        except Problem as problem:
            outcomes = self._admitted(problem, rows, task)
        self._note(rows, outcomes, task)
        if not is_many:
            return _one(outcomes[0])
        if form == ARROW:
            return arrow_response(_columns(outcomes, self._owners.declared.columns))
        if form == NDJSON:
            lines = b"\n".join(each.body for each in outcomes) + b"\n"
            return Response(lines, headers={"cache-control": "no-store"}, media_type=NDJSON)
        refused = sum(each.status != 200 for each in outcomes)
        results = [orjson.Fragment(each.body) for each in outcomes]
        return json_response({"rows": len(rows), "refused": refused, "results": results})

    def _read(self, content: str, body: bytes) -> tuple[Rows, bool]:
        reader = self._owners.rows
        try:
            if content == JSON:
                return reader.of_json(body)
            return (reader.of_lines if content == NDJSON else reader.of_arrow)(body), True
        except InvalidValue as error:
            raise Problem("InvalidRequest", f"{error}.") from None
        except MissingDependency:
            detail = f"This server has no Arrow: send {JSON}."
            raise Problem("UnsupportedMediaType", detail) from None
        except (InvalidTime, UnsuitableKey) as error:
            raise Problem(type(error).__name__, str(error)) from None

    def _admitted(self, problem: Problem, rows: Rows, task: Task) -> list[Outcome]:
        """Return outcomes without aggregates if events are admitted while the store is away."""
        is_away = problem.name in _AWAY
        if self._owners.declared.on_unavailable == "refuse" or not (is_away and task == "add"):
            raise problem
        self._owners.outcomes["admitted"] += len(rows)
        return [Outcome(200, b'{"time":null,"values":null}', "admitted")] * len(rows)

    def _note(self, rows: Rows, outcomes: list[Outcome], task: Task) -> None:
        """Note refused events for the page."""
        for at, outcome in enumerate(outcomes if task == "add" else ()):
            if outcome.status == 409:
                found = orjson.loads(outcome.body)
                shown = ("time", "limit", "aggregate", "at_most", "fits_at")
                value = found["values"][found["aggregate"]]
                self._recent.append(
                    {"key": rows.keys[at], "value": value} | {name: found[name] for name in shown}
                )

    async def limits(self, request: Request) -> Response:
        """``GET /v1/limits``: the limits, what was refused, and the owners of shards."""
        parameters(request)
        form_of(request, JSON)
        limits = [
            {"name": name, "aggregate": aggregate, "at_most": most,
             "refused": self._owners.outcomes[name]}
            for name, (aggregate, most) in self._owners.declared.limits.items()
        ]  # fmt: skip
        return json_response({
            "limits": limits, "accepted": self._owners.outcomes["accepted"],
            "recent": [*reversed(self._recent)], **self._owners.status(),
        })  # fmt: skip

    def gauges(self) -> Mapping[str, float]:
        """Return the values of the gauges that ``mta.serve.metrics`` describes."""
        status = self._owners.status()
        return {"waiting_events": status["waiting"], "own_shards": len(status["own_shards"])}

    def counts(self) -> Mapping[str, float]:
        """Return how many events had which outcome."""
        return dict(self._owners.outcomes)

    def routes(self) -> list[Route]:
        return [
            route("/v1/events", partial(self._answer, "add"), "POST"),
            route("/v1/check", partial(self._answer, "check"), "POST"),
            route("/v1/erase", self.erase, "POST"),
            route("/v1/limits", self.limits),
        ]


def _one(outcome: Outcome) -> Response:
    headers = {"cache-control": "no-store"}
    if outcome.status == 200:
        return Response(outcome.body, headers=headers, media_type=JSON)
    found = orjson.loads(outcome.body)
    if found.get("fits_at") is not None:
        wait = datetime.fromisoformat(found["fits_at"]) - datetime.fromisoformat(found["time"])
        headers["retry-after"] = str(ceil(wait.total_seconds()))
    return Response(outcome.body, outcome.status, headers, PROBLEM_JSON)


def _columns(outcomes: list[Outcome], names: list[str]) -> dict[str, Any]:
    """Return the aggregates in columns, with the name of the problem, or the limit."""
    found = [orjson.loads(each.body) for each in outcomes]
    columns: dict[str, Any] = {
        name: [(each.get("values") or {}).get(name) for each in found] for name in names
    }
    columns["refused"] = [None if each.status == 200 else each.what for each in outcomes]
    return columns


def create_service(settings: ServerSettings) -> ASGIApp:
    """Return the application of a worker that takes events of the windows declared in a file."""
    assert settings.declaration is not None
    declared = read_declaration(Path(settings.declaration))
    owners = Owners(declared, settings.advertised, settings.time_limit)
    paths = EventPaths(owners, settings)
    more = More(
        paths.routes(), owners.start, owners.stop, paths.gauges, paths.counts,
        paths_of(declared, owners.rows.form, settings),
    )  # fmt: skip
    return create_app(settings, more)
