#!/usr/bin/env bash
# Make a Redis image for the tests with containers where none can be pulled: on a machine with root
# and Debian's packages, but no image registry.
#
#   sudo docker/test-redis-image.sh      installs docker.io and debootstrap if need be, starts
#                                        dockerd if no engine answers, and imports
#                                        mta-test-redis:local from a fresh Debian folder
#   sudo docker/test-redis-image.sh stop stops the engine that this script has started
#
# The tests find the image by its name. A second run, with the image there, does nothing. The
# engine's files are in $MTA_DOCKER_ROOT (/var/lib/mta-test-docker), its socket is the usual one.
# MTA_DEBIAN_MIRROR and MTA_DEBIAN_SUITE choose another mirror and release of Debian.
set -euo pipefail

image=mta-test-redis:local
root=${MTA_DOCKER_ROOT:-/var/lib/mta-test-docker}
suite=${MTA_DEBIAN_SUITE:-bookworm}

say() { echo "-- $*"; }
answers() { docker info >/dev/null 2>&1; }

if [ "${1:-}" = stop ]; then
    [ -f "$root/dockerd.pid" ] && kill "$(cat "$root/dockerd.pid")" && say "stopped dockerd"
    exit 0
fi

need() {
    local missing=() package
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        "${missing[@]}" >/dev/null
}

wait_for_engine() { # seconds, process id
    local i
    for ((i = 0; i < $1 * 5; i++)); do
        answers && return 0
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.2
    done
    return 1
}

# Kernels and containers differ in what they allow; each line asks for less than the one before.
start_engine() {
    local options
    mkdir -p "$root"
    for options in \
        "" \
        "--storage-driver=vfs" \
        "--storage-driver=vfs --iptables=false --ip6tables=false --bridge=none"; do
        say "starting dockerd ${options:-with its defaults}"
        # shellcheck disable=SC2086
        setsid dockerd --data-root "$root/data" --exec-root "$root/exec" \
            --pidfile "$root/dockerd.pid" $options >"$root/dockerd.log" 2>&1 </dev/null &
        wait_for_engine 60 $! && return 0
        kill $! 2>/dev/null || true
        wait $! 2>/dev/null || true
    done
    tail -n 5 "$root/dockerd.log" >&2
    return 1
}

answers && docker image inspect "$image" >/dev/null 2>&1 && { say "$image is there"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "this needs root" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "this needs a Debian with apt-get" >&2; exit 1; }
answers || { need docker.io iptables && start_engine; }
if ! docker image inspect "$image" >/dev/null 2>&1; then
    need debootstrap
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    say "making a Debian $suite with Redis"
    debootstrap --variant=minbase --include=redis-server "$suite" "$folder" \
        ${MTA_DEBIAN_MIRROR:+"$MTA_DEBIAN_MIRROR"} >/dev/null
    rm -rf "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/*
    tar -C "$folder" -c . | docker import \
        --change 'EXPOSE 6379' --change 'WORKDIR /data' \
        --change 'CMD ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no"]' \
        - "$image" >/dev/null
fi
say "$image is ready"
