"""Feast with exact sliding windows: an online store, and offline retrieval (extra ``feast``).

``windows_view`` declares a feature view whose features are the windows of its source's rows. The
online store answers from the windows that are published under the view's name, as of the moment of
the request. The offline store computes the same windows with ``rolling(at=)``, as of the moment of
each row of the entity data frame; it leaves other feature views to Feast's own ``dask`` store.

    online_store:
        type: mta.feast.MtaOnlineStore
        store: redis://localhost:6379/0
    offline_store:
        type: mta.feast.MtaOfflineStore
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
from feast import Entity, FeatureView, Field, FileSource
from feast.infra.offline_stores.dask import (
    DaskOfflineStore,
    DaskOfflineStoreConfig,
    DaskRetrievalJob,
)
from feast.infra.online_stores.online_store import OnlineStore
from feast.repo_config import FeastConfigBaseModel
from feast.type_map import python_values_to_proto_values
from feast.types import Float64, Int64

from mta.errors import UnsupportedOperation
from mta.frames.base import Frame
from mta.frames.shorthand import frame_of
from mta.keyed.rolling import rolling
from mta.monoids.basic import Count
from mta.monoids.product import Product, pairs_of, result_name
from mta.published.reader import PublishedWindows

#: The tag of a feature view with the definition of its windows.
TAG = "mta.windows"
_TIMESTAMP = "event_timestamp"


def windows_view(
    name: str,
    entities: list[Entity],
    source: FileSource,
    aggregations: Mapping[str, tuple[Any, str] | str],
    frames: Mapping[str, str | int],
    **options: Any,
) -> FeatureView:
    """Return a feature view whose features are windows, called ``aggregation_frame``.

    Counts are integers, and all other features are doubles. Raises ValueError.

    Args:
        name: The name of the view, under which the windows are published.
        entities: The entities; their join keys are the key of the windows.
        source: Parquet files with the events.
        aggregations: For each name a column and the name of an aggregation, such as ("amount",
            "sum"), or only the name of one that reads no column, such as "count".
        frames: Durations or numbers of events by name, such as {"day": "1 day"}.
        **options: Further arguments of ``FeatureView``.
    """
    given = {
        alias: how if isinstance(how, str) else list(how) for alias, how in aggregations.items()
    }
    pairs = pairs_of(_as_given(given))
    schema = [
        Field(name=result_name(alias, frame), dtype=Int64 if isinstance(of, Count) else Float64)
        for frame in frames
        for alias, (_, of) in pairs.items()
    ]
    tags = {**options.pop("tags", {}), TAG: json.dumps([given, dict(frames)])}
    return FeatureView(
        name=name, entities=entities, schema=schema, source=source, tags=tags, **options
    )


def definition_of(view: FeatureView) -> tuple[Product, dict[str, Frame]]:
    """Return the aggregations and frames of a view, for ``KeyedWindows`` and ``rolling``.

    Raises ValueError for a view that ``windows_view`` did not make.
    """
    if TAG not in view.tags:
        raise ValueError(f"the feature view {view.name!r} has no windows: make it by windows_view")
    given, sizes = json.loads(view.tags[TAG])
    frames: dict[str, Frame] = {name: frame_of(size) for name, size in sizes.items()}
    return Product(_as_given(given)), frames


def _as_given(aggregations: Mapping[str, Any]) -> dict[str, Any]:
    """Return aggregations from JSON as Product takes them."""
    return {
        alias: how
        if isinstance(how, str)
        else (tuple(how[0]) if isinstance(how[0], list) else how[0], how[1])
        for alias, how in aggregations.items()
    }


# --- online ---------------------------------------------------------------------------------------


class MtaOnlineStoreConfig(FeastConfigBaseModel):  # type: ignore[misc]
    """The online store in ``feature_store.yaml``."""

    type: Literal["mta.feast.MtaOnlineStore"] = "mta.feast.MtaOnlineStore"
    store: str
    """The URL of the store in which the windows are published."""
    refresh: str = "1 second"
    """How often to look for newer windows."""


class MtaOnlineStore(OnlineStore):  # type: ignore[misc]
    """Answers from published windows; the windows' own program or Spark query writes them."""

    def __init__(self) -> None:
        self._readers: dict[str, PublishedWindows] = {}

    def online_read(
        self,
        config: Any,
        table: FeatureView,
        entity_keys: list[Any],
        requested_features: list[str] | None = None,
    ) -> list[tuple[datetime | None, dict[str, Any] | None]]:
        """Return the windows of keys as of now, with this moment as the time of each row.

        Raises NotPublished, and the errors of the store.
        """
        if table.name not in self._readers:
            online = config.online_store
            self._readers[table.name] = PublishedWindows(
                online.store, table.name, refresh=online.refresh
            )
        moment = datetime.now(UTC)
        keys = [_key_of(key, table.join_keys) for key in entity_keys]
        found = self._readers[table.name].query(keys, at=moment)
        columns = {
            field.name: python_values_to_proto_values(
                [None if value != value else value for value in found[field.name].tolist()],
                field.dtype.to_value_type(),
            )
            for field in table.features
            if requested_features is None or field.name in requested_features
        }
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return [(moment, row) for row in rows]

    def online_write_batch(
        self, config: Any, table: FeatureView, data: Any, progress: Any = None
    ) -> None:
        """Raise UnsupportedOperation: events are added to the windows, not to Feast."""
        raise UnsupportedOperation(
            f"the features of {table.name!r} are windows, which their own program or query "
            f"publishes as {table.name!r}: there is nothing to materialize"
        )

    def update(self, config: Any, *_: Any, **__: Any) -> None:
        """Do nothing: the windows belong to their publisher."""

    def teardown(self, config: Any, *_: Any, **__: Any) -> None:
        """Do nothing: the windows belong to their publisher."""


def _key_of(entity: Any, names: Sequence[str]) -> Any:
    values = {
        name: getattr(value, value.WhichOneof("val"))
        for name, value in zip(entity.join_keys, entity.entity_values, strict=True)
    }
    key = tuple(values[name] for name in names)
    return key[0] if len(key) == 1 else key


# --- offline --------------------------------------------------------------------------------------


class MtaOfflineStoreConfig(DaskOfflineStoreConfig):  # type: ignore[misc]
    """The offline store in ``feature_store.yaml``."""

    type: Literal["mta.feast.MtaOfflineStore"] = "mta.feast.MtaOfflineStore"


class MtaOfflineStore(DaskOfflineStore):  # type: ignore[misc]
    """Computes views of windows by ``rolling(at=)``, and other views like Feast's own store."""

    @staticmethod
    def get_historical_features(
        config: Any,
        feature_views: list[FeatureView],
        feature_refs: list[str],
        entity_df: Any,
        registry: Any,
        project: str,
        full_feature_names: bool = False,
        **options: Any,
    ) -> DaskRetrievalJob:
        """Return a job that adds the features as of the time of each row of ``entity_df``.

        Raises ValueError if ``entity_df`` is no data frame with a column ``event_timestamp``.
        """
        if not isinstance(entity_df, pd.DataFrame) or _TIMESTAMP not in entity_df:
            raise ValueError(f"entity_df is a pandas data frame with the column {_TIMESTAMP!r}")
        ours = {v.projection.name_to_use(): v for v in feature_views if TAG in v.tags}
        refs = [ref.split(":", 1) for ref in feature_refs]
        rest = [v for v in feature_views if TAG not in v.tags]
        others = [":".join(ref) for ref in refs if ref[0] not in ours]
        job = None
        if others:
            job = DaskOfflineStore.get_historical_features(
                config, rest, others, entity_df, registry, project, full_feature_names, **options
            )

        def evaluate() -> pd.DataFrame:
            found = entity_df if job is None else job.to_df()
            for name, view in ours.items():
                wanted = [feature for of, feature in refs if of == name]
                results = _windows_at(config, view, found)[wanted]
                prefix = f"{name}__" if full_feature_names else ""
                found = found.assign(**{f"{prefix}{f}": results[f].to_numpy() for f in wanted})
            return found

        return _Job(evaluate, full_feature_names, config.repo_path)


class _Job(DaskRetrievalJob):  # type: ignore[misc]
    """The retrieval of a data frame, computed when it is asked for."""

    def _to_df_internal(self, timeout: int | None = None) -> pd.DataFrame:
        found: pd.DataFrame = self.evaluation_function()
        return found.reset_index(drop=True)

    def _to_arrow_internal(self, timeout: int | None = None) -> pa.Table:
        return pa.Table.from_pandas(self._to_df_internal())


def _windows_at(config: Any, view: FeatureView, entities: pd.DataFrame) -> pd.DataFrame:
    """Return the features of a view for each row of an entity data frame."""
    aggregations, frames = definition_of(view)
    source, keys = view.batch_source, list(view.join_keys)
    path = FileSource.get_uri_for_file_path(repo_path=config.repo_path, uri=source.path)
    filesystem, place = FileSource.create_filesystem_and_path(
        str(path), source.file_options.s3_endpoint_override
    )
    time = source.timestamp_field
    columns = [*keys, time, *aggregations.columns]
    events = pd.read_parquet(place, columns=columns, filesystem=filesystem)
    events[time] = pd.to_datetime(events[time], utc=True)
    called = {view.projection.join_key_map.get(key, key): key for key in keys}
    asked = entities[[*called, _TIMESTAMP]].rename(columns={**called, _TIMESTAMP: time})
    asked[time] = pd.to_datetime(asked[time], utc=True)
    found = rolling(
        events, by=keys, on=time, at=asked, window=frames, aggregations=aggregations.aggregations
    )
    types = {f.name: "Int64" if f.dtype == Int64 else "float64" for f in view.features}
    return found[[*types]].astype(types)
