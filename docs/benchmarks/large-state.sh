#!/usr/bin/env bash
# Measures what a large state costs a real node on this machine: latency while snapshots are written and while none is, the
# disk, and the start after kill -9, with the memory of a key then. memory.sh measures that of keys that were just made. Needs
# Go, jq, curl and Linux' /proc. Prints a Markdown table.
#
#   docs/benchmarks/large-state.sh [keys, default 1000000] [checks/s while it is measured, default 1000] [runs of 10 s, default 12]
source "$(dirname "$0")/common.sh"
keys=${1:-1000000} rate=${2:-1000} runs=${3:-12}

restart() { # kill -9 of node 1; leaves in took the milliseconds until it is ready again
    local from pid=${pids[node-1]} command
    mapfile -d '' command < "/proc/$pid/cmdline"
    kill -9 "$pid"
    wait "$pid" 2> /dev/null || true
    from=$(date +%s%N)
    "${as_node[@]}" "${command[@]}" >> "$work/log-1" 2>&1 &
    pids[node-1]=$!
    ready node-1 curl -sf "http://$(address api 1)/readyz"
    took=$((($(date +%s%N) - from) / 1000000))
}
resident() { awk '/VmRSS/ {printf "%.0f", $2 * 1024}' "/proc/${pids[node-1]}/status"; }
mib() { du -sm "$work/data-1/$1" | cut -f1; }
row() { echo "| $1 | $2 |"; }

row "large state, $keys keys of 24 bytes" "figure"
echo "|---|---|"
cluster 1
empty=$(resident)
fill free "$keys"
restart
row "start after kill -9, replaying the log of their creation" "$took ms"
row "the log on disk then" "$(mib log) MiB"

most_log=0 most_snapshots=0
for ((run = 1; run <= runs; run++)); do
    before=$(ls "$work"/data-1/snapshots/*/snapshots 2> /dev/null | cksum)
    bench --policy free --protocol grpc --callers 64 --keys 9999999 --key-prefix free----------01 --rate "$rate" \
        --duration 10s > "$work/run" &
    running=$!
    during=without
    while kill -0 $running 2> /dev/null; do
        [[ $(ls "$work"/data-1/snapshots/*/snapshots 2> /dev/null | cksum) == "$before" ]] || during=with
        log=$(mib log) snapshots=$(mib snapshots)
        most_log=$((log > most_log ? log : most_log)) most_snapshots=$((snapshots > most_snapshots ? snapshots : most_snapshots))
        sleep 0.5
    done
    wait $running
    cat "$work/run" >> "$work/$during"
done
for during in without with; do
    touch "$work/$during"
    row "$rate checks/s, 10 s $during a snapshot: p50, p99, p99.9 (range), runs" "$(jq -rs 'def of(f): map(f / 1000) | sort;
        if length == 0 then "none" else "\(of(.latencyMicros.p50)[length / 2 | floor]) ms, \(of(.latencyMicros.p99)[length / 2 | floor]) ms, \(
        of(.latencyMicros.p999) | "\(.[length / 2 | floor]) ms (\(first) to \(last))"), \(length)" end' "$work/$during")"
done
row "most on disk meanwhile: log, snapshots" "$most_log MiB, $most_snapshots MiB"
restart
row "start after kill -9, restoring the snapshot" "$took ms"
row "resident bytes for each key then" "$((($(resident) - empty) / $(live 1)))"
