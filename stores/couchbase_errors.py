"""The errors of Couchbase's client under the names of this project."""

from __future__ import annotations

from couchbase import exceptions

from .errors import (
    InvalidStoreURL,
    PageTooLarge,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    UnsupportedOperation,
    WindowStoreError,
)

_NOWHERE = (
    exceptions.BucketNotFoundException,
    exceptions.BucketDoesNotExistException,
    exceptions.ScopeNotFoundException,
    exceptions.CollectionNotFoundException,
    exceptions.KeyspaceNotFoundException,
)
_CANNOT = (
    exceptions.FeatureUnavailableException,
    exceptions.UnsupportedOperation,
    exceptions.DurabilityInvalidLevelException,
)
_VALUE_TOO_LARGE = 104  # the client has no class for it


def named(error: Exception, url: str, password: str | None = None) -> WindowStoreError:
    """The project's error for an error of the client, without a password or a page in it."""
    reasons = _retry_reasons(error)
    text = type(error).__name__ + (f", {', '.join(sorted(reasons))}" if reasons else "")
    message = str(getattr(error, "message", "") or "")
    if message and message != "Operation failed":
        text += f": {message.replace(password, '***') if password else message}"
    if isinstance(error, exceptions.AuthenticationException):
        return StoreAccessDenied(f"{url} refused ({text}): correct user, password or rights")
    if isinstance(error, _NOWHERE) or any("collection" in reason for reason in reasons):
        return InvalidStoreURL(
            f"{url} is not there ({text}): create the bucket, scope or collection, "
            "give the user the right to it, or correct the URL"
        )
    if isinstance(error, _CANNOT):
        return UnsupportedOperation(
            f"{url} cannot do this ({text}): listing keys needs Couchbase Server 7.6, "
            "scopes and collections 7.0, durability 6.5 and enough nodes"
        )
    if isinstance(error, exceptions.InvalidArgumentException):
        return InvalidStoreURL(f"{url}: the client does not take an option ({text}): correct it")
    if isinstance(error, exceptions.QuotaLimitedException):
        return StoreFull(f"{url} is full ({text}): raise the quota or delete pages")
    if getattr(error, "error_code", None) == _VALUE_TOO_LARGE:
        return PageTooLarge(f"{url} takes no page of this size: choose a smaller arity")
    if isinstance(error, exceptions.TemporaryFailException) or any(
        "temporary_failure" in reason for reason in reasons
    ):
        return StoreUnavailable(
            f"{url} has no memory for it now ({text}): retry later, or raise the bucket's quota"
        )
    return StoreUnavailable(f"{url} does not answer ({text}): retry when it is back")


def _retry_reasons(error: Exception) -> set[str]:
    """Why the client tried again until its time was up."""
    reasons = getattr(getattr(error, "context", None), "retry_reasons", None) or ()
    return {str(reason) for reason in reasons}
