#!/usr/bin/env bash
# stint's Redis port beside a Redis of the same durability, the same work in turns: three nodes beside a Redis that writes
# appendfsync always and WAITs for a replica that does the same; then one node beside one such Redis alone. INCR, a fixed window
# and a token bucket, on one key and on 100,000, one command at a time and 16 in a pipeline. Needs redis-server and redis-cli.
#
#   docs/benchmarks/against-redis.sh [seconds for each run, default 3] [rounds, default 3] [callers, default 64]
. "$(dirname "$0")/common.sh"
seconds=${1:-3} rounds=${2:-3} callers=${3:-64}

compare() { # compare [flags]: prints a Markdown table
    "$load" compare --addr "$addresses" --redis-addr "$redis_addresses" --peer "127.0.0.1:$((base + 51))" --policy free \
        --callers "$callers" --keys 100000 --batch 16 --duration "${seconds}s" --rounds "$rounds" "$@"
}

machine
cluster 3
redis primary $((base + 51))
redis replica $((base + 52)) --replicaof 127.0.0.1 $((base + 51))
until redis-cli -p $((base + 51)) info replication | grep -q 'state=online'; do sleep 0.1; done
printf '\nThree nodes. '
compare --wait 1
stop_cluster
stop replica primary

cluster 1
redis alone $((base + 51))
printf '\nOne node. '
compare
