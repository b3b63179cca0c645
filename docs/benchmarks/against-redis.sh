#!/usr/bin/env bash
# stint's Redis port beside a Redis of the same durability, the same work in turns: three nodes beside a Redis that writes
# appendfsync always and WAITs for a replica that does the same; then one node beside one such Redis alone. INCR, a fixed window
# and a token bucket, on one key and on 100,000, one command at a time and 16 in a pipeline. Needs redis-server and redis-cli.
#
#   docs/benchmarks/against-redis.sh [seconds for each run, default 3] [rounds, default 3] [callers, default 64]
. "$(dirname "$0")/common.sh"
seconds=${1:-3} rounds=${2:-3} callers=${3:-64}

compare() { # compare [flags]: prints a Markdown table
    "$stint" bench --addr "$addresses" --redis-addr "$redis_addresses" --compare "127.0.0.1:$((base + 51))" --policy free \
        --callers "$callers" --keys 100000 --batch 16 --duration "${seconds}s" --rounds "$rounds" -o json "$@" > "$work/compared"
    jq -r '
        def spread(f): "\(.median | f) (\(.min | f)-\(.max | f))";
        def whole: round;
        def tenths: . * 10 | round / 10;
        def hundredths: . * 100 | round / 100;
        def durability: if .appendOnly then "appendfsync \(.appendFsync)" else "no append-only file" end;
        "Redis \(.redis.version), \(.redis | durability)\(.redis.replicas // [] | map(", a replica with " + durability) | add // ""
            ); \(.callers) callers; \(.rounds) rounds of \(.seconds) s in turns", "",
        "| work | keys | pipeline | WAIT | stint/s | Redis/s | stint / Redis | stint p50, p99 us | Redis p50, p99 us | stint CPU us | Redis CPU us |",
        "|-|-|-|-|-|-|-|-|-|-|-|",
        (.comparisons[] | "| \(.work) | \(.keys) | \(.pipeline) | \(if .wait > 0 then .wait else "no" end) | \(.stint.perSecond | spread(whole)) | \(
            .redis.perSecond | spread(whole)) | \(.ratio | spread(hundredths)) | \(.stint.p50Micros.median), \(.stint.p99Micros.median) | \(
            .redis.p50Micros.median), \(.redis.p99Micros.median) | \(.stint.serverCpuMicros.median | tenths) | \(
            .redis.serverCpuMicros.median | tenths) |"),
        (.wrong // [] | .[])' "$work/compared"
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
