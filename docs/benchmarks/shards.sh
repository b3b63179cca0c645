#!/usr/bin/env bash
# What shards cost: three nodes with 1 shard and with 16, 1,024 callers on 100,000 keys. In each round a new cluster of each kind.
#
#   docs/benchmarks/shards.sh [seconds for each run, default 4] [rounds, default 3] [callers, default 1024]
. "$(dirname "$0")/common.sh"
seconds=${1:-4} rounds=${2:-3} callers=${3:-1024}

cases=("--policy free --protocol redis --callers $callers --keys 100000" "--policy free --protocol grpc --callers $callers --keys 100000"
    "--policy free --protocol json --callers $callers --keys 100000")
start() { # start SHARDS
    local i
    SHARDS=$1 cluster 3
    for i in "${!cases[@]}"; do
        # shellcheck disable=SC2086
        bench ${cases[$i]} --duration 1s > /dev/null
    done
}
SHARDS="1 and 16" machine
beside "$rounds" "$seconds" 1 16
