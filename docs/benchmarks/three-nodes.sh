#!/usr/bin/env bash
# Measures three nodes on this machine, load generator included: every case ROUNDS times, interleaved, medians with their
# range; then what a planned restart of every node and kill -9 of owners cost, and what an idle node costs. Needs Go, jq
# and Linux' /proc. Prints Markdown tables.
#
#   docs/benchmarks/three-nodes.sh [seconds for each run, default 4] [rounds, default 3] [seconds of each part after, default 60]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-4} rounds=${2:-3} after=${3:-60}

work=$(mktemp -d)
declare -A pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true; wait; rm -rf "$work"' EXIT
go build -o "$work/stint" ./cmd/stint
cat > "$work/policies.yaml" << 'YAML'
policies:
  free: {limits: [{name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}]}
YAML
api() { echo "127.0.0.1:747$1"; }
addresses=$(api 1),$(api 2),$(api 3)
seeds=127.0.0.1:7491,127.0.0.1:7492,127.0.0.1:7493

start() { # start N: node N
    "$work/stint" serve --node-id "node-$1" --data-dir "$work/data-$1" --policies "$work/policies.yaml" \
        --bootstrap-expect 3 --join $seeds --api-addr "$(api "$1")" --peer-addr "127.0.0.1:748$1" \
        --gossip-addr "127.0.0.1:749$1" >> "$work/log-$1" 2>&1 &
    pids[$1]=$!
}
ready() { until "$work/stint" healthcheck --addr "$(api "$1")" > /dev/null 2>&1; do sleep 0.05; done; }
bench() { "$work/stint" bench --addr "$addresses" --policy free "$@" -o json 2> /dev/null; }
ticks() { # processor time of all nodes, in ticks of 10 ms
    local sum=0 fields
    for pid in "${pids[@]}"; do
        read -ra fields < "/proc/$pid/stat"
        sum=$((sum + fields[13] + fields[14]))
    done
    echo $sum
}

for n in 1 2 3; do start $n; done
for n in 1 2 3; do ready $n; done
sleep 2 # the shards find the nodes that should lead them

cases=()
for keys in 1 100000; do
    for callers in 64 1024; do
        cases+=("--protocol json --callers $callers --keys $keys" "--protocol grpc --callers $callers --keys $keys"
            "--protocol grpc --batch 100 --callers $callers --keys $keys")
    done
done
for round in $(seq "$rounds"); do
    for i in "${!cases[@]}"; do
        # shellcheck disable=SC2086
        bench ${cases[$i]} --duration "${seconds}s" >> "$work/case-$i" || true # the verdict is in the table
    done
done

echo "| case | checks/s (range) | p50 us | p99 us | nodes' CPU us/check | forwarded | decided together | exact |"
echo "|-|-|-|-|-|-|-|-|"
for i in "${!cases[@]}"; do
    jq -rs --arg name "${cases[$i]}" '
        def median: sort | .[length / 2 | floor];
        def middle(f): map(f // 0) | median;
        "| `\($name)` | \(middle(.checksPerSecond) | round) (\(map(.checksPerSecond) | min | round)-\(map(.checksPerSecond) | max | round)) | \(
        middle(.latencyMicros.p50)) | \(middle(.latencyMicros.p99)) | \(middle(.serverCpuMicrosPerCheck) * 10 | round / 10) | \(
        middle(.forwardedShare) * 100 | round) % | \(middle(.meanBatch) * 10 | round / 10) | \(
        if all(.verdict.ok) then "yes" else "NO" end) |"' "$work/case-$i"
done

echo
echo "idle, three nodes, over ${after} s:"
sleep 5
before=$(ticks)
sleep "$after"
awk -v ticks=$(($(ticks) - before)) -v seconds="$after" -v hz="$(getconf CLK_TCK)" \
    'BEGIN { printf "%.1f %% of one core for each node\n", 100 * ticks / hz / seconds / 3 }'
grep -h VmRSS /proc/"${pids[1]}"/status /proc/"${pids[2]}"/status /proc/"${pids[3]}"/status

for n in 1 2 3; do
    kill "${pids[$n]}"
    wait "${pids[$n]}" || true
done
pids=()

# What clients see that go on to the next node, while nodes are stopped in order, or killed. A shard's outage begins when
# somebody asks it and hears nothing for 100 ms.
echo
echo "| three nodes, 300 checks/s, ${after} s | faults | answered | missed 2 s | outages | p50 ms | p99 ms | worst ms | exact |"
echo "|-|-|-|-|-|-|-|-|-|"
for fault in restart kill; do
    "$work/stint" verify --local 3 --faults $fault --duration "${after}s" --rate 300 -o json > "$work/$fault" 2> /dev/null || true
    jq -r --arg fault $fault '"| `--faults \($fault)` | \(.faults[$fault]) | \(.operations) | \(.missed) | \(.unavailableMicros.count) | \(
        .unavailableMicros.p50 / 1000 | round) | \(.unavailableMicros.p99 / 1000 | round) | \(
        .unavailableMicros.worst / 1000 | round) | \(if .exact then "yes" else "NO" end) |"' "$work/$fault"
done
