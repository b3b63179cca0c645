#!/usr/bin/env bash
# What shards cost: three nodes with 1 shard and with 16, 1,024 callers on 100,000 keys. In each round a new cluster of each kind.
#
#   docs/benchmarks/shards.sh [seconds for each run, default 4] [rounds, default 3] [callers, default 1024]
. "$(dirname "$0")/common.sh"
seconds=${1:-4} rounds=${2:-3} callers=${3:-1024}

cases=("--policy free --protocol redis --callers $callers --keys 100000" "--policy free --protocol grpc --callers $callers --keys 100000"
    "--policy free --protocol json --callers $callers --keys 100000")
for round in $(seq "$rounds"); do
    for shards in 1 16; do
        SHARDS=$shards cluster 3
        for i in "${!cases[@]}"; do
            # shellcheck disable=SC2086
            bench ${cases[$i]} --duration 1s > /dev/null
            # shellcheck disable=SC2086
            bench ${cases[$i]} --duration "${seconds}s" >> "$work/shards-$shards-$i"
        done
    done
done
SHARDS="1 and 16" machine
echo
echo "| case | 1 shard: checks/s (range) | CPU us | 16 shards: checks/s (range) | CPU us | 16 / 1 (range of the rounds) |"
echo "|-|-|-|-|-|-|"
for i in "${!cases[@]}"; do
    jq -rn --arg name "${cases[$i]}" --slurpfile one "$work/shards-1-$i" --slurpfile many "$work/shards-16-$i" '
        def median: sort | .[length / 2 | floor];
        def rate: map(.checksPerSecond) | "\(median | round) (\(min | round)-\(max | round))";
        def cpu: map(.serverCpuMicrosPerCheck) | median * 10 | round / 10;
        def hundredths: . * 100 | round / 100;
        [range($one | length) | $many[.].checksPerSecond / $one[.].checksPerSecond] as $ratios |
        "| `\($name)` | \($one | rate) | \($one | cpu) | \($many | rate) | \($many | cpu) | \($ratios | median | hundredths) (\(
        $ratios | min | hundredths)-\($ratios | max | hundredths)) |"'
done
