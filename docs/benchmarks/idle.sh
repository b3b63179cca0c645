#!/usr/bin/env bash
# What three nodes cost that nobody asks, by their number of shards: processor time and switches of threads, all nodes together.
# Needs Linux' /proc. In each round a new cluster of each kind.
#
#   docs/benchmarks/idle.sh [seconds, default 20] [rounds, default 3] [numbers of shards, default "1 4 16"]
. "$(dirname "$0")/common.sh"
seconds=${1:-20} rounds=${2:-3} numbers=${3:-1 4 16}

# spent: processor time of all nodes so far, in ms, and switches of their threads.
spent() {
    local n
    for n in 1 2 3; do cat "/proc/${pids[node-$n]}/stat" "/proc/${pids[node-$n]}/task/"*/status; done |
        awk -v hz="$(getconf CLK_TCK)" '/\(stint\)/ {ms += ($14 + $15) * 1000 / hz}
            /ctxt_switches/ {switches += $2}
            END {print int(ms), switches}'
}

for _ in $(seq "$rounds"); do
    for shards in $numbers; do
        SHARDS=$shards cluster 3
        read -r ms switches < <(spent)
        sleep "$seconds"
        read -r ms_later switches_later < <(spent)
        echo "$((ms_later - ms)) $((switches_later - switches))" >> "$work/idle-$shards"
    done
done
SHARDS=$numbers machine
printf '\n| shards | processor time, ms a second (range) | switches of threads a second (range) |\n|-|-|-|\n'
for shards in $numbers; do
    echo "| $shards | $(for column in 1 2; do
        awk -v c="$column" -v s="$seconds" '{print int($c / s)}' "$work/idle-$shards" | sort -n |
            awk '{v[NR] = $1} END {printf "%d (%d-%d) | ", v[int((NR + 1) / 2)], v[1], v[NR]}'
    done)"
done
