#!/usr/bin/env bash
# One node on this machine, load generator included: rate and latency of single checks and batches, on a hot key and on many,
# and of a flood. Every case ROUNDS times, interleaved.
#
#   docs/benchmarks/one-node.sh [seconds for each run, default 4] [rounds, default 3]
. "$(dirname "$0")/common.sh"
seconds=${1:-4} rounds=${2:-3}

cluster 1
cases=()
for keys in 1 100000; do
    for callers in 1 64 1024; do
        for protocol in json grpc redis; do
            cases+=("--policy free --protocol $protocol --callers $callers --keys $keys")
        done
    done
    cases+=("--policy free --protocol grpc --callers 1 --keys $keys --batch 100"
        "--policy free --protocol grpc --callers 16 --keys $keys --batch 100"
        "--policy free --protocol json --callers 16 --keys $keys --batch 100"
        "--policy free --protocol redis --callers 64 --keys $keys --batch 16")
done
cases+=("--policy free --protocol grpc --callers 16 --keys 100000 --batch 100 --denied 99"
    "--policy free --protocol json --callers 64 --keys 1 --denied 99"
    "--policy free --protocol json --callers 64 --keys 100000 --denied 99")
machine
measure "$rounds" "$seconds" "${cases[@]}"
