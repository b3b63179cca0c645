#!/usr/bin/env bash
# Three nodes on this machine, load generator included: the policy `api` with both its limits at a fixed rate, and checks of two
# keys, on one shard and on whatever shards (SHARDS says how many), against checks of one. Every case ROUNDS times, interleaved.
#
#   docs/benchmarks/several-keys.sh [seconds for each run, default 5] [rounds, default 3]
. "$(dirname "$0")/common.sh"
seconds=${1:-5} rounds=${2:-3}

sed 1d "$work/policies.yaml" > "$work/free.yaml"
cat policy/dev.yaml "$work/free.yaml" > "$work/policies.yaml"
cluster 3
cases=(
    "--policy api --tier vendor --keys 200 --protocol grpc --batch 50 --callers 16 --rate 180"
    "--policy api --tier vendor --keys 200 --protocol grpc --batch 50 --callers 16"
    "--policy free --keys 100000 --protocol grpc --callers 64"
    "--policy free --keys 100000 --protocol grpc --callers 64 --entries 2 --together"
    "--policy free --keys 100000 --protocol grpc --callers 64 --entries 2"
    "--policy free --keys 100000 --protocol grpc --callers 64 --batch 100"
    "--policy free --keys 100000 --protocol grpc --callers 64 --batch 100 --entries 2 --together"
    "--policy free --keys 100000 --protocol grpc --callers 64 --batch 100 --entries 2"
)
machine
measure "$rounds" "$seconds" "${cases[@]}"
