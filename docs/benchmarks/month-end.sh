#!/usr/bin/env bash
# What a month's end costs: the periods of all keys of a metered policy end at one instant. One node, whose clock tests move, so that
# it comes when it is measured. In each round, which is a month, the keys are used, and then
#   - nobody asks anything: entries written in the seconds over the end beside those of as many seconds before it, and how long after
#     the end usage is complete through it
#   - under load, a month later: p50, p99 and the worst before the end, over it, and after it
# In the end the bills are pulled and compared with what was admitted. TMPDIR says which disk.
#
#   docs/benchmarks/month-end.sh [keys, default 1000000] [checks/s, default 500] [seconds of each run, default 10] [rounds, default 3]
. "$(dirname "$0")/common.sh"
keys=${1:-1000000} rate=${2:-500} seconds=${3:-10} rounds=${4:-3}

cat > "$work/policies.yaml" << 'YAML'
policies:
  billed:
    limits: [{name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}]
    meter: {name: calls, calendar: {unit: month}, retain: 36}
YAML

addresses=$(address api 1) redis_addresses=$(address redis 1)
TMPDIR=$work "${as_node[@]}" "$stint" serve --dev --test-clock --policies "$work/policies.yaml" --shards "$SHARDS" \
    --api-addr "$addresses" --peer-addr "$(address peer 1)" --gossip-addr "$(address gossip 1)" > "$work/log-1" 2>&1 &
pids[node-1]=$!
ready node-1 "$stint" tool healthcheck --addr "$addresses"

call() { curl -sf "http://$addresses/$1" -H 'content-type: application/json' -d "$2"; }
millis() { date +%s%3N; }
advance() { # advance MILLISECONDS; leaves in ahead how far the node's clock is ahead of this machine's
    local before
    before=$(millis)
    call stint.test.v1.TestClock/Advance "{\"by\":\"$(($1 / 1000)).$(printf %03d $(($1 % 1000)))s\"}" > /dev/null
    ahead=$((ahead + $1))
    echo "the clock went on by $1 ms, in $(($(millis) - before)) ms" >> "$work/log-advances"
}
clock() { echo $(($(millis) + ahead)); }
ahead=0
next_end() { # leaves in end the next end of a month
    local month
    month=$(date -u -d "@$(($(clock) / 1000))" +%Y-%m-01)
    end=$(($(date -u -d "$month +1 month" +%s) * 1000))
}
go_to() { advance $(($1 - $(clock))); } # go_to INSTANT: moves the clock there
sum() { curl -sf "http://$addresses/metrics" | awk -v name="$1" 'index($1, name) == 1 {sum += $2} END {printf "%.0f", sum}'; }
written() { echo "$(sum stint_log_append_entries_sum) $(sum stint_batch_effects_sum)"; } # entries, and keys that they changed
until_clock() { while (($(clock) < $1)); do sleep 0.02; done; }

# The keys are drawn at random: three checks for each leave one in 20 out.
use() {
    bench --policy billed --protocol grpc --callers 8 --batch 500 --keys "$keys" --key-prefix month-end- --count $((3 * keys)) >> "$work/used"
}
load() { bench --policy billed --protocol grpc --callers 64 --keys "$keys" --key-prefix month-end- --rate "$rate" --duration "${seconds}s" | tee -a "$work/used"; }

# The first page of each shard, by the token that a listing has when it comes to that shard.
questions=()
for shard in $(seq 0 $((SHARDS - 1))); do
    questions+=(--next -sf "http://$addresses/stint.v1.ObserveService/ListUsage" -H 'content-type: application/json'
        -d "{\"policy\":\"billed\",\"pageSize\":1,\"pageToken\":\"$(printf "1-%d-0-0-" "$shard")\"}")
done
complete() { # waits until usage is complete through the end; leaves in after how many ms after it that is, and in reads how often it asked:
    # each is a read of that shard and one of the ledger, and an entry of both
    local wanted
    reads=0 wanted=$(date -u -d "@$((end / 1000))" +%Y-%m-%dT%H:%M:%S)
    until curl "${questions[@]:1}" | jq -se --arg wanted "$wanted" --argjson shards "$SHARDS" 'length == $shards and all(.[]; .completeThrough[:19] >= $wanted)' > /dev/null; do
        reads=$((reads + SHARDS))
        sleep 0.05
    done
    reads=$((reads + SHARDS)) after=$(($(clock) - end))
}

machine
echo "load of the machine: $(cut -d' ' -f1-3 /proc/loadavg)"
first=$(date -u +%Y-%m)
for round in $(seq "$rounds"); do
    use
    live=$(sum "stint_keys{")
    next_end
    go_to $((end - seconds * 1000 - 3000))
    read -r entries effects <<< "$(written)"
    sleep "$seconds"
    read -r entries_before effects_before <<< "$(written)"
    until_clock $((end - 1000))
    read -r entries_at effects_at <<< "$(written)"
    complete
    until_clock $((end - 1000 + seconds * 1000))
    read -r entries_over effects_over <<< "$(written)"
    echo "{\"live\":$live,\"after\":$after,\"before\":[$((entries_before - entries)),$((effects_before - effects))],\"over\":[$((entries_over - entries_at)),$((effects_over - effects_at)),$reads]}" >> "$work/idle"

    use
    next_end
    go_to $((end - seconds * 1000 - 4000))
    load >> "$work/load-before"
    until_clock $((end - seconds * 500)) # the end is in the middle of the run
    load > "$work/over" &
    pids[load]=$!
    complete
    echo "$after" >> "$work/after-under-load"
    wait "${pids[load]}"
    unset "pids[load]"
    cat "$work/over" >> "$work/load-over"
    load >> "$work/load-after"
done

echo
echo "| $seconds s without requests | entries written (rounds) | of which for this script's own questions | keys changed (rounds) |"
echo "|-|-|-|-|"
for what in before over; do
    jq -rs --arg what "$what" 'def shown: map(tostring) | join(", ");
        "| \($what) the end | \(map(.[$what][0]) | shown) | \(map(2 * (.[$what][2] // 0)) | shown) | \(map(.[$what][1]) | shown) |"' "$work/idle"
done
echo
echo "keys: $(jq -s 'map(.live) | max' "$work/idle"). Usage is complete through the end after (ms): $(jq -rs 'map(.after | tostring) | join(", ")' "$work/idle"); under load: $(paste -sd ' ' "$work/after-under-load")"
echo
echo "| $rate checks/s, $seconds s | p50 us (range) | p99 us (range) | worst us (range) | checks | failed |"
echo "|-|-|-|-|-|-|"
for what in before over after; do
    jq -rs --arg what "$what" '
        def median: sort | .[length / 2 | floor];
        def shown(f): "\(map(f) | median) (\(map(f) | min)-\(map(f) | max))";
        "| \($what) the end | \(shown(.latencyMicros.p50)) | \(shown(.latencyMicros.p99)) | \(shown(.latencyMicros.max)) | \(map(.checks) | add) | \(map(.failed + .unknown) | add) |"' "$work/load-$what"
done
echo
next_end
go_to $((end + 16 * 60 * 1000)) # all but the new month are final
before=$(millis)
"$stint" usage --policy billed --addr "$addresses" -o csv > "$work/bills.csv" 2> "$work/complete"
took=$(($(millis) - before))
echo "all bills since $first: $(($(wc -l < "$work/bills.csv") - 1)) periods in $took ms; units on them: $(awk -F, 'NR > 1 {sum += $9 - $10} END {printf "%.0f", sum}' "$work/bills.csv"), admitted: $(jq -s 'map(.admitted) | add' "$work/used"); $(cat "$work/complete")"
