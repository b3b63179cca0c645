#!/usr/bin/env bash
# Draws docs/benchmarks/{callers,keys,batch,shards}.svg: rate and p99 against callers, live keys, checks in a call, and shards, on
# one node and on three. About 8 minutes with the defaults, half of it to use ten million keys once.
#
#   docs/benchmarks/curves.sh [seconds for each run, default 1] [rounds, default 2] [most keys, default 10000000]
. "$(dirname "$0")/common.sh"
seconds=${1:-1} rounds=${2:-2} most=${3:-10000000}

curve() { # curve NAME=VALUES SERIES [flags]
    "$load" curve "$1" --series "$2" --addr "$addresses" --redis-addr "$redis_addresses" --policy free \
        --duration "${seconds}s" --rounds "$rounds" --timeout 30s "${@:3}" >> "$work/${1%%=*}.json"
}
keys=1
for n in 100 10000 1000000 10000000; do if [ "$n" -le "$most" ]; then keys+=,$n; fi; done

for count in 1 3; do
    name="one node"
    if [ "$count" = 3 ]; then name="three nodes"; fi
    cluster "$count"
    curve callers=1,4,16,64,256,1024,4096 "$name, Redis protocol" --protocol redis --keys 100000
    curve callers=1,4,16,64,256,1024,4096 "$name, gRPC" --protocol grpc --keys 100000
    curve batch=1,10,100,1000 "$name" --protocol grpc --callers 16 --keys 100000
    curve "keys=$keys" "$name" --protocol redis --callers 64 --batch 16
    for shards in 1 2 4 8 16 32 64; do
        SHARDS=$shards cluster "$count"
        curve "shards=$shards" "$name" --protocol redis --callers 1024 --keys 100000
    done
done

draw() { "$load" draw "$work/$1.json" --title "$2" > "docs/benchmarks/$1.svg"; }
draw callers "Single checks, by callers"
draw batch "CheckBatch over gRPC, 16 callers, by checks in a call"
draw keys "Pipelines of 16 over the Redis protocol, by live keys"
draw shards "Single checks over the Redis protocol, 1,024 callers, by shards"
machine
