#!/usr/bin/env bash
# One caller: the latency of a check beside what the disk and the wire allow, measured in the same minutes. An exact answer of one
# node waits for one fdatasync; that of three nodes for a majority's, so for a round trip too, and for another one to the
# shard's owner, where the node that was asked is not it (the column "forwarded"): the one key is asked for at its owner. TMPDIR
# says which disk.
#
#   docs/benchmarks/one-caller.sh [seconds for each run, default 3] [rounds, default 3]
. "$(dirname "$0")/common.sh"
seconds=${1:-3} rounds=${2:-3}

cases=()
for keys in "1 --key-prefix hot-" 1000; do
    for protocol in redis grpc json; do
        cases+=("--policy free --callers 1 --protocol $protocol --keys $keys")
    done
done

# owner_first COUNT: puts the node that owns the hot key's shard in front: a caller alone asks the first.
owner_first() {
    local shard owner n
    shard=$("$stint" check --peek free hot-0000000 --addr "$(address api 1)" -o json | jq '.decision.positions[0].shard // 0')
    owner=$(stint_status | jq -r --argjson shard "$shard" '.shards[] | select(.id == $shard) | .owner')
    owner=${owner#node-}
    addresses=$(address api "$owner") redis_addresses=$(address redis "$owner")
    for n in $(seq "$1"); do
        if [ "$n" != "$owner" ]; then addresses+=,$(address api "$n") redis_addresses+=,$(address redis "$n"); fi
    done
}

# floor ROUNDS: prints the medians of p50, in us: fdatasync appended, fdatasync preallocated, a round trip.
floor() {
    local n
    for n in $(seq "$1"); do "$stint" tool bench --floor "$work" --duration 1s -o json; done | jq -rs '
        def median: sort | .[length / 2 | floor];
        [.[].syncAppendMicros.p50] as $append | [.[].syncPreallocatedMicros.p50] as $preallocated | [.[].roundTripMicros.p50] as $trip |
        "\($append | median) \($preallocated | median) \($trip | median)"'
}

machine
for count in 1 3; do
    cluster "$count"
    owner_first "$count"
    printf '\n%s node(s):\n' "$count"
    before=($(floor "$rounds"))
    measure "$rounds" "$seconds" "${cases[@]}"
    after=($(floor "$rounds"))
    printf '\np50 of this disk and loopback, before and after: fdatasync of 4 KiB %s and %s us appended, %s and %s us preallocated; %s\n' \
        "${before[0]}" "${after[0]}" "${before[1]}" "${after[1]}" "round trip ${before[2]} and ${after[2]} us"
    syncs=$count trips=2
    if [ "$count" = 3 ]; then syncs=2; else trips=0; fi
    echo
    echo "| case | p50 us | by $syncs fdatasync appended + $trips round trips | by $syncs fdatasync preallocated + $trips round trips |"
    echo "|-|-|-|-|"
    for i in "${!cases[@]}"; do
        jq -rs --arg name "${cases[$i]}" --argjson syncs "$syncs" --argjson trips "$trips" \
            --argjson append "$(((before[0] + after[0]) / 2))" --argjson preallocated "$(((before[1] + after[1]) / 2))" \
            --argjson trip "$(((before[2] + after[2]) / 2))" '
            def median: sort | .[length / 2 | floor];
            def times(sync): . / ($syncs * sync + $trips * $trip) * 100 | round / 100;
            (map(.latencyMicros.p50) | median) as $p50 |
            "| `\($name)` | \($p50) | \($p50 | times($append)) | \($p50 | times($preallocated)) |"' "$work/run-alone-$i"
    done
done
