#!/usr/bin/env bash
# Three nodes on this machine, load generator included: rate and latency; then what a planned restart of every node and kill -9
# of owners cost. Every case ROUNDS times, interleaved. idle.sh measures what idle nodes cost.
#
#   docs/benchmarks/three-nodes.sh [seconds for each run, default 4] [rounds, default 3] [seconds of each part after, default 60]
. "$(dirname "$0")/common.sh"
seconds=${1:-4} rounds=${2:-3} after=${3:-60}

cluster 3
cases=()
for keys in 1 100000; do
    for callers in 64 1024; do
        cases+=("--policy free --protocol json --callers $callers --keys $keys"
            "--policy free --protocol grpc --callers $callers --keys $keys"
            "--policy free --protocol redis --callers $callers --keys $keys"
            "--policy free --protocol grpc --batch 100 --callers $callers --keys $keys")
    done
done
machine
measure "$rounds" "$seconds" "${cases[@]}"

stop_cluster

# What clients see that go on to the next node, while nodes are stopped in order, or killed. A shard's outage begins when
# somebody asks it and hears nothing for 100 ms.
echo
echo "| three nodes, 300 checks/s, ${after} s | faults | answered | missed 2 s | outages | p50 ms | p99 ms | worst ms | exact |"
echo "|-|-|-|-|-|-|-|-|-|"
for fault in restart kill; do
    "$stint" tool verify --local 3 --faults $fault --duration "${after}s" --rate 300 -o json > "$work/$fault" 2> /dev/null || true
    jq -r --arg fault $fault '"| `--faults \($fault)` | \(.faults[$fault]) | \(.operations) | \(.missed) | \(.unavailableMicros.count) | \(
        .unavailableMicros.p50 / 1000 | round) | \(.unavailableMicros.p99 / 1000 | round) | \(
        .unavailableMicros.worst / 1000 | round) | \(if .exact then "yes" else "NO" end) |"' "$work/$fault"
done
