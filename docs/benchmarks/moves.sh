#!/usr/bin/env bash
# What callers notice while slots move: three nodes with one shard and many keys, checks of these keys at a constant rate, and
# meanwhile `stint shards` to more shards and back to one. Then clusters that have grown to that number beside those that were
# founded with it, in turns. Prints two Markdown tables.
#
#   docs/benchmarks/moves.sh [keys, default 1000000] [checks/s, default 10000] [shards, default 3] [rounds of the second table, default 4]
source "$(dirname "$0")/common.sh"
keys=${1:-1000000} rate=${2:-10000} shards=${3:-3} rounds=${4:-4}

reshard() { "$stint" shards "$1" --addr "$(address api 1)" --wait 30m; }

# seconds PHASE COMMAND...: measures second after second, each in a run of its own, while the command runs.
seconds() {
    local phase=$1 from=$SECONDS
    shift
    "$@" > "$work/command" 2>&1 &
    pids[command]=$!
    while kill -0 "${pids[command]}" 2> /dev/null; do
        bench --policy free --protocol redis --callers 256 --keys "$keys" --key-prefix moves- --rate "$rate" --duration 1s \
            >> "$work/run-$phase"
    done
    if ! wait "${pids[command]}"; then cat "$work/command" >&2; fi
    unset "pids[command]"
    jq -rs --arg phase "$phase" --arg took $((SECONDS - from)) '
        def spread(f): map(f / 1000 * 10 | round / 10) | sort | "\(.[length / 2 | floor]) (\(first)-\(last))";
        def total(f): map(f // 0) | add;
        "| \($phase) | \($took) s | \(length) | \(total(.checks)) | \(total(.failed)) | \(total(.unknown)) | \(total(.unsentCalls)) | \(
        spread(.latencyMicros.p50)) | \(spread(.latencyMicros.p99)) | \(spread(.latencyMicros.max)) |"' "$work/run-$phase"
}

machine
cluster 3
bench --policy free --protocol grpc --callers 8 --batch 500 --keys "$keys" --key-prefix moves- --walk --count "$keys" > /dev/null
at_rest
echo
echo "| $(live 1) keys, $rate checks/s | took | seconds measured | checks | failed | unknown | not sent | p50 ms (range) | p99 ms | worst ms |"
echo "|-|-|-|-|-|-|-|-|-|-|"
seconds "before" sleep 20
seconds "1 to $shards shards" reshard "$shards"
seconds "$shards shards" sleep 20
seconds "$shards to 1 shard" reshard 1
seconds "after" sleep 20

start() { # start founded|grown
    if [ "$1" = founded ]; then SHARDS=$shards cluster 3; else cluster 3 && reshard "$shards" > /dev/null && at_rest; fi
    bench --policy bucket --protocol redis --keys 100000 --duration 2s > /dev/null
}
cases=("--policy bucket --protocol redis --keys 100000" "--policy bucket --protocol redis --keys 100000 --batch 16"
    "--policy bucket --protocol json --keys 100000")
beside "$rounds" 3 founded grown
