#!/usr/bin/env bash
# Make a fresh Couchbase node usable for pages: memory, administrator, bucket, scope, collection.
# Running it again on a node that is ready changes nothing.
#
# COUCHBASE_HOST, COUCHBASE_USER, COUCHBASE_PASSWORD say where and as whom; COUCHBASE_BUCKET (pages),
# COUCHBASE_SCOPE (mta) and COUCHBASE_COLLECTION (pages) what; COUCHBASE_MEMORY_MB (512) how much.
set -euo pipefail

base="http://${COUCHBASE_HOST:?}:8091"
user=${COUCHBASE_USER:?} password=${COUCHBASE_PASSWORD:?}
bucket=${COUCHBASE_BUCKET:-pages} scope=${COUCHBASE_SCOPE:-mta}
collection=${COUCHBASE_COLLECTION:-pages} memory=${COUCHBASE_MEMORY_MB:-512}

# The password goes in through a file, so that no list of processes shows it.
login=$(mktemp)
trap 'rm -f "$login"' EXIT
quoted=${password//\\/\\\\}
printf 'user = "%s:%s"\n' "$user" "${quoted//\"/\\\"}" >"$login"

say() { echo "-- $*"; }
call() { curl --silent --show-error --fail --max-time 20 --config "$login" "$@"; }

say "waiting for $base"
until curl --silent --fail --max-time 5 --output /dev/null "$base/pools"; do sleep 1; done

if ! call --output /dev/null "$base/pools/default"; then
    say "setting up the node"
    call "$base/pools/default" --data "memoryQuota=$memory" >/dev/null
    call "$base/node/controller/setupServices" --data services=kv >/dev/null
    printf '%s' "$password" | call "$base/settings/web" --output /dev/null --data port=SAME \
        --data-urlencode "username=$user" --data-urlencode "password@-"
fi

if ! call --output /dev/null "$base/pools/default/buckets/$bucket" 2>/dev/null; then
    say "creating the bucket $bucket"
    call "$base/pools/default/buckets" --data "name=$bucket" \
        --data "ramQuota=$((memory / 2))" --data replicaNumber=0 >/dev/null
fi

scopes="$base/pools/default/buckets/$bucket/scopes"
until list=$(call "$scopes" 2>/dev/null); do sleep 1; done
if ! grep -q "\"name\":\"$scope\"" <<<"$list"; then
    say "creating the scope $scope"
    call "$scopes" --data "name=$scope" >/dev/null
fi
if ! call "$scopes" | grep -q "\"name\":\"$scope\"[^]]*\"name\":\"$collection\"" &&
    ! call --output /dev/null "$scopes/$scope/collections" --data "name=$collection" 2>/dev/null; then
    say "the collection $collection is there already, or could not be created"
fi
say "ready: couchbase://$user:...@$COUCHBASE_HOST/$bucket/$scope/$collection"
