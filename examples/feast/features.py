"""What ``feast apply`` registers: the windows of a card's payments, over three lengths."""

from feast import Entity, FileSource, ValueType

from mta.feast import windows_view

card = Entity(name="card", join_keys=["card"], value_type=ValueType.STRING)
payments = FileSource(path="payments.parquet", timestamp_field="ts")
spending = windows_view(
    "spending",
    [card],
    payments,
    aggregations={
        "spent": ("amount", "sum"),
        "highest": ("amount", "max"),
        "deviation": ("amount", "std"),
        "payments": "count",
    },
    frames={"hour": "1 hour", "day": "1 day", "week": "7 days"},
)
