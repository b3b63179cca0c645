#!/usr/bin/env bash
# What a meter and thresholds cost: the same load on one node under a policy without both, with a meter, with thresholds that it does
# not cross, and with both, in turns, each run on a node with no data. TMPDIR says which disk.
#
#   docs/benchmarks/meters.sh [seconds for each run, default 3] [rounds, default 5]
. "$(dirname "$0")/common.sh"
seconds=${1:-3} rounds=${2:-5}

limit='name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}'
meter='meter: {name: calls, calendar: {unit: month}}'
thresholds='thresholds: [80%, 100%, 500000000000]'
cat > "$work/policies.yaml" << YAML
policies:
  plain:      {limits: [{$limit}]}
  metered:    {limits: [{$limit}], $meter}
  thresholds: {limits: [{$limit, $thresholds}], notify: [billing]}
  both:       {limits: [{$limit, $thresholds}], notify: [billing], $meter}
YAML
policies=(plain metered thresholds both)
cases=("--keys 100000 --protocol json" "--keys 100000 --protocol grpc --batch 100 --callers 16" "--protocol grpc --batch 100 --callers 16")

machine
for round in $(seq "$rounds"); do
    for policy in "${policies[@]}"; do
        cluster 1
        for i in "${!cases[@]}"; do
            # shellcheck disable=SC2086
            bench --policy "$policy" ${cases[$i]} --duration "${seconds}s" >> "$work/$policy-$i"
        done
    done
done
echo
echo "| case | policy | checks/s (range) | beside plain, round by round (range) | p99 us | server's CPU us/check | exact |"
echo "|-|-|-|-|-|-|-|"
for i in "${!cases[@]}"; do
    for policy in "${policies[@]}"; do
        jq -rn --arg name "${cases[$i]}" --arg policy "$policy" --slurpfile plain "$work/plain-$i" --slurpfile this "$work/$policy-$i" '
            def median: sort | .[length / 2 | floor];
            def percent: . * 100 | round / 100;
            ($this | map(.checksPerSecond)) as $rates |
            [$plain, $this] | transpose | map(.[1].checksPerSecond / .[0].checksPerSecond) as $ratios |
            "| `\($name)` | \($policy) | \($rates | median | round) (\($rates | min | round)-\($rates | max | round)) | \($ratios | median | percent) (\(
            $ratios | min | percent)-\($ratios | max | percent)) | \($this | map(.latencyMicros.p99) | median) | \(
            $this | map(.serverCpuMicrosPerCheck) | median | percent) | \(if all($this[]; .verdict.ok) then "yes" else "NO" end) |"'
    done
done
