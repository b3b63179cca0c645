#!/usr/bin/env bash
# Measures one node on this machine, load generator included: every case ROUNDS times, interleaved, medians with their
# range. Needs Go and jq. Prints a Markdown table.
#
#   docs/benchmarks/one-node.sh [seconds for each run, default 4] [rounds, default 3]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-4} rounds=${2:-3}

work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; wait; rm -rf "$work"' EXIT
go build -o "$work/stint" ./cmd/stint
cat > "$work/policies.yaml" << 'YAML'
policies:
  free: {limits: [{name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}]}
  bucket: {limits: [{name: burst, quota: 1000000000, token_bucket: {refill: 1000000, per: 1s}}]}
YAML
address=127.0.0.1:7480
"$work/stint" serve --data-dir "$work/data" --policies "$work/policies.yaml" --api-addr $address > "$work/log" 2>&1 &
until "$work/stint" healthcheck --addr http://$address > /dev/null 2>&1; do sleep 0.05; done

cases=()
for keys in 1 100000; do
    for callers in 1 64 1024; do
        for protocol in json grpc; do
            cases+=("--protocol $protocol --callers $callers --keys $keys")
        done
    done
    cases+=("--protocol grpc --callers 1 --keys $keys --batch 100" "--protocol grpc --callers 16 --keys $keys --batch 100"
        "--protocol json --callers 16 --keys $keys --batch 100")
done
cases+=("--protocol grpc --callers 16 --keys 100000 --batch 100 --denied 99" "--protocol json --callers 64 --keys 1 --denied 99"
    "--protocol json --callers 64 --keys 100000 --denied 99")

for round in $(seq "$rounds"); do
    for i in "${!cases[@]}"; do
        # shellcheck disable=SC2086
        "$work/stint" bench --addr http://$address --policy free ${cases[$i]} --duration "${seconds}s" -o json \
            2> /dev/null >> "$work/case-$i"
    done
done

echo "| case | checks/s (range) | p50 us | p99 us | server CPU us/check | exact |"
echo "|---|---|---|---|---|---|"
for i in "${!cases[@]}"; do
    jq -rs --arg name "${cases[$i]}" '
        def median: sort | .[length / 2 | floor];
        "| `\($name)` | \(map(.checksPerSecond) | median | round) (\(map(.checksPerSecond) | min | round)-\(map(.checksPerSecond) | max | round)) | \(
        map(.latencyMicros.p50) | median) | \(map(.latencyMicros.p99) | median) | \(
        map(.serverCpuMicrosPerCheck) | median * 10 | round / 10) | \(if all(.verdict.ok) then "yes" else "NO" end) |"' "$work/case-$i"
done
