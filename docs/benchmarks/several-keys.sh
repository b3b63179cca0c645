#!/usr/bin/env bash
# Measures three nodes on this machine, load generator included: the policy `api` with both its limits at a fixed rate, and
# checks of two keys, on one shard and on whatever shards, against checks of one. Every case ROUNDS times, interleaved,
# medians with their range. Needs Go and jq. Prints Markdown tables.
#
#   docs/benchmarks/several-keys.sh [seconds for each run, default 5] [rounds, default 3]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-5} rounds=${2:-3}

work=$(mktemp -d)
declare -A pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true; wait; rm -rf "$work"' EXIT
go build -o "$work/stint" ./cmd/stint
cp policy/dev.yaml "$work/policies.yaml"
echo '  free: {limits: [{name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}]}' >> "$work/policies.yaml"
api() { echo "127.0.0.1:747$1"; }
addresses=$(api 1),$(api 2),$(api 3)

for n in 1 2 3; do
    "$work/stint" serve --node-id "node-$n" --data-dir "$work/data-$n" --policies "$work/policies.yaml" --bootstrap-expect 3 \
        --join 127.0.0.1:7491,127.0.0.1:7492,127.0.0.1:7493 --api-addr "$(api $n)" --peer-addr "127.0.0.1:748$n" \
        --gossip-addr "127.0.0.1:749$n" >> "$work/log-$n" 2>&1 &
    pids[$n]=$!
done
for n in 1 2 3; do
    until "$work/stint" healthcheck --addr "$(api $n)" > /dev/null 2>&1; do sleep 0.05; done
done
sleep 2 # the shards find the nodes that should lead them

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
for round in $(seq "$rounds"); do
    for i in "${!cases[@]}"; do
        # shellcheck disable=SC2086
        "$work/stint" bench --addr "$addresses" ${cases[$i]} --duration "${seconds}s" -o json >> "$work/case-$i" 2> /dev/null || true
    done
done

echo "| case | checks/s (range) | p50 us | p99 us (range) | nodes' CPU us/check | exact |"
echo "|-|-|-|-|-|-|"
for i in "${!cases[@]}"; do
    jq -rs --arg name "${cases[$i]}" '
        def median: sort | .[length / 2 | floor];
        def middle(f): map(f // 0) | median;
        def range(f): "\(map(f) | min | round)-\(map(f) | max | round)";
        "| `\($name)` | \(middle(.checksPerSecond) | round) (\(range(.checksPerSecond))) | \(middle(.latencyMicros.p50)) | \(
        middle(.latencyMicros.p99)) (\(range(.latencyMicros.p99))) | \(middle(.serverCpuMicrosPerCheck) * 10 | round / 10) | \(
        if all(.verdict.ok) then "yes" else "NO" end) |"' "$work/case-$i"
done
