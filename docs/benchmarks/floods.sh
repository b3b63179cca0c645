#!/usr/bin/env bash
# Floods, on three nodes: checks of 100 keys that are all admitted, 99 % denied on 100 keys, and the same under a policy with
# deny_cache. Every case ROUNDS times, interleaved.
#
#   docs/benchmarks/floods.sh [seconds for each run, default 4] [rounds, default 3]
. "$(dirname "$0")/common.sh"
seconds=${1:-4} rounds=${2:-3}

cat >> "$work/policies.yaml" << 'YAML'
  cached: {limits: [{name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}], deny_cache: 1s}
YAML
cluster 3
cases=()
for way in "--protocol json --callers 64" "--protocol grpc --callers 64" "--protocol redis --callers 64" \
    "--protocol redis --callers 64 --batch 16" "--protocol grpc --callers 16 --batch 100"; do
    cases+=("--policy free $way --keys 100" "--policy free $way --keys 100 --denied 99"
        "--policy cached $way --keys 100 --denied 99")
done
machine
measure "$rounds" "$seconds" "${cases[@]}"
