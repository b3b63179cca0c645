#!/usr/bin/env bash
# Measures a backup and its restore on this machine: one node with many keys, idle. Needs Go, jq, curl and GNU time. Prints a
# Markdown table.
#
#   docs/benchmarks/backup.sh [keys, default 1000000]
source "$(dirname "$0")/common.sh"
keys=${1:-1000000}

row() { echo "| $1 | $2 |"; }
timed() { # timed NAME COMMAND...: seconds and peak memory
    local name=$1
    shift
    /usr/bin/time -f '%e s, %M KiB at most' -o "$work/time" "$@" > /dev/null 2> "$work/said" || { cat "$work/said" >&2; exit 1; }
    row "$name" "$(cat "$work/time")"
}

cluster 1
fill free "$keys"
row "backup of $(live 1) keys of 24 bytes, shards: $SHARDS, one idle node" "figure"
echo "|---|---|"
timed "stint backup FILE" "$work/stint" backup "$work/b" --addr "http://$(address api 1)"
row "its size" "$(stat -c %s "$work/b") bytes"
timed "stint restore --dry-run" "$work/stint" restore "$work/b" --data-dir "$work/restored" --dry-run
timed "stint restore" "$work/stint" restore "$work/b" --data-dir "$work/restored" --yes
row "the directory" "$(du -sm "$work/restored" | cut -f1) MiB"
