#!/usr/bin/env bash
# The ways in, on three nodes: single checks at 64 callers over each protocol and by the Go client, on a hot key and on
# 100,000, and batches of 100 by CheckBatch, by a stream and in pipelines. Every case ROUNDS times, interleaved.
#
#   docs/benchmarks/front.sh [seconds for each run, default 4] [rounds, default 3]
. "$(dirname "$0")/common.sh"
seconds=${1:-4} rounds=${2:-3}

cluster 3
cases=()
for keys in 1 100000; do
    for protocol in json connect grpc "grpc --grpc-addr $(list grpc 3)" stream "stream --grpc-addr $(list grpc 3)" client redis; do
        cases+=("--policy free --protocol $protocol --callers 64 --keys $keys")
    done
    for protocol in json grpc "grpc --grpc-addr $(list grpc 3)" stream "stream --grpc-addr $(list grpc 3)" redis; do
        cases+=("--policy free --protocol $protocol --callers 16 --keys $keys --batch 100")
    done
done
machine
measure "$rounds" "$seconds" "${cases[@]}"
