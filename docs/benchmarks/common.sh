# What the scripts of this directory begin with: sourced, never run. Builds stint, starts what they measure on ports of
# 127.0.0.1 from BASE_PORT (8200) on, with data in a directory below TMPDIR, and ends and removes all of it when they end.
# SHARDS (1) is what a cluster is founded with; NODE_PROCS, if it is set, the GOMAXPROCS of each node. Needs Go and jq.
#
# Sets work (the directory), stint and load (the binaries), and after cluster: addresses and redis_addresses of the nodes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

base=${BASE_PORT:-8200}
SHARDS=${SHARDS:-1}
as_node=(env ${NODE_PROCS:+"GOMAXPROCS=$NODE_PROCS"}) # what a command is run with that is a node
work=$(mktemp -d)
declare -A pids=() # of what runs, by name
nodes=0
finish() {
    set +e
    trap '' INT TERM
    stop "${!pids[@]}"
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
stint=$work/stint
go build -o "$stint" ./cmd/stint
load=$work/bench
go build -C tools/bench -o "$load" .

# free admits 10^12 a day, bucket a million a second: neither ever denies.
cat > "$work/policies.yaml" << 'YAML'
policies:
  free: {limits: [{name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}]}
  bucket: {limits: [{name: burst, quota: 1000000000, token_bucket: {refill: 1000000, per: 1s}}]}
YAML

# address KIND NODE: api, peer, gossip, redis or grpc port of a node.
address() {
    local -A kinds=([api]=10 [peer]=20 [gossip]=30 [redis]=40 [grpc]=60)
    echo "127.0.0.1:$((base + kinds[$1] + $2))"
}

# list KIND COUNT: of nodes 1 to COUNT, with commas.
list() {
    local n all=()
    for n in $(seq "$2"); do all+=("$(address "$1" "$n")"); done
    (IFS=,; echo "${all[*]}")
}

# cluster COUNT [flags of serve]: that many new nodes, ready, with no data. The nodes before are stopped.
cluster() {
    local count=$1 n found=(--bootstrap-expect "$1")
    shift
    stop_cluster
    if [ "$count" -gt 1 ]; then found+=(--join "$(list gossip "$count")" --cluster-key "$work/cluster.key"); fi
    rm -rf "$work"/data-*
    for n in $(seq "$count"); do
        "${as_node[@]}" "$stint" serve --node-id "node-$n" --data-dir "$work/data-$n" --policies "$work/policies.yaml" \
            "${found[@]}" --shards "$SHARDS" --api-addr "$(address api "$n")" --peer-addr "$(address peer "$n")" \
            --gossip-addr "$(address gossip "$n")" --redis-addr "$(address redis "$n")" \
            --grpc-addr "$(address grpc "$n")" "$@" >> "$work/log-$n" 2>&1 &
        pids[node-$n]=$!
    done
    nodes=$count
    addresses=$(list api "$count") redis_addresses=$(list redis "$count")
    for n in $(seq "$count"); do ready "node-$n" "$stint" tool healthcheck --addr "$(address api "$n")"; done
    if [ "$count" -gt 1 ]; then at_rest; fi
}

# at_rest: waits until every shard has had its owner for 5 s, for a minute at most: 3 s after a node came to own a shard it
# hands it to the one that should lead it.
at_rest() {
    local owners seen=none since=$SECONDS until=$((SECONDS + 60))
    while [ $SECONDS -lt $until ]; do
        owners=$(stint_status | jq -c 'if all(.shards[]; .owner // "" != "") then [.shards[] | [.owner, .epoch]] else empty end')
        if [ -z "$owners" ] || [ "$owners" != "$seen" ]; then seen=$owners since=$SECONDS; fi
        if [ $((SECONDS - since)) -ge 5 ]; then return; fi
        sleep 0.5
    done
    echo "the shards do not come to rest: $owners" >&2
}

stint_status() { "$stint" status --addr "$(address api 1)" -o json 2> /dev/null || true; }

stop_cluster() {
    local n names=()
    for n in $(seq "$nodes"); do names+=("node-$n"); done
    nodes=0
    stop "${names[@]}"
}

# ready NAME COMMAND...: waits until the command succeeds, for a minute at most, and while what has the name lives.
ready() {
    local name=$1 until=$((SECONDS + 60))
    shift
    until "$@" > /dev/null 2>&1; do
        if ! kill -0 "${pids[$name]}" 2> /dev/null || [ $SECONDS -gt $until ]; then
            echo "$name is not ready:" >&2
            tail -n 5 "$work"/log-* >&2
            exit 1
        fi
        sleep 0.05
    done
}

# stop NAME...: ends what was started under these names, and waits for it.
stop() {
    local name
    for name in "$@"; do kill "${pids[$name]}" 2> /dev/null || true; done
    for name in "$@"; do
        wait "${pids[$name]}" 2> /dev/null || true
        unset "pids[$name]"
    done
}

# redis NAME PORT [flags]: a Redis whose data is in a directory of its own.
redis() {
    local name=$1 port=$2
    shift 2
    mkdir -p "$work/$name"
    redis-server --port "$port" --bind 127.0.0.1 --dir "$work/$name" --save '' --appendonly yes --appendfsync always \
        --repl-diskless-sync-delay 0 "$@" > "$work/log-$name" 2>&1 &
    pids[$name]=$!
    ready "$name" redis-cli -p "$port" ping
}

# bench [flags]: a run of tools/bench against the cluster, as JSON. A verdict against the server ends no script: the table has it.
bench() { "$load" run --addr "$addresses" --redis-addr "$redis_addresses" "$@" 2>> "$work/log-bench" || true; }

# measure ROUNDS SECONDS CASE...: runs each case, words of flags, once in each round, and prints a Markdown table: medians,
# with ranges.
measure() {
    local cases=("${@:3}")
    start() { :; }
    beside "$1" "$2" alone
}

# beside ROUNDS SECONDS KIND...: is measure for the cases in the array cases, under each kind in turns: `start KIND` starts what
# is measured. KIND in a case stands for the kind. The table then also has the rate beside that of the first kind.
beside() {
    local rounds=$1 seconds=$2 first=$3 round kind i versus=
    shift 2
    rm -f "$work"/run-*
    for round in $(seq "$rounds"); do
        for kind in "$@"; do
            start "$kind"
            for i in "${!cases[@]}"; do
                if [ -t 2 ]; then printf '\r\e[Kround %d of %d: %s: %s' "$round" "$rounds" "$kind" "${cases[$i]}" >&2; fi
                # shellcheck disable=SC2086
                bench ${cases[$i]//KIND/$kind} --duration "${seconds}s" >> "$work/run-$kind-$i"
            done
        done
    done
    if [ -t 2 ]; then printf '\r\e[K' >&2; fi
    if [ $# -gt 1 ]; then versus=" kind | beside $first, round by round (range) |"; fi
    echo
    echo "| case |$versus checks/s (range) | p50 us | p99 us (range) | servers' CPU us/check | client's | forwarded | decided together | exact |"
    echo "|-|${versus:+-|-|}-|-|-|-|-|-|-|-|"
    for i in "${!cases[@]}"; do
        for kind in "$@"; do
            jq -rn --arg name "${cases[$i]}" --arg kind "$kind" --arg versus "$versus" --slurpfile first "$work/run-$first-$i" \
                --slurpfile this "$work/run-$kind-$i" '
                def median: sort | .[length / 2 | floor];
                def middle(f): $this | map(f // 0) | median;
                def spread(f): $this | map(f // 0) | "\(median | round) (\(min | round)-\(max | round))";
                def tenths: . * 10 | round / 10;
                def hundredths: . * 100 | round / 100;
                if ($this | length) == 0 then "| `\($name)` | failed |" else
                [$first, $this] | transpose | map((.[1].checksPerSecond // 0) / (.[0].checksPerSecond // 1)) as $ratios |
                (if $versus == "" then "" else " \($kind) | \($ratios | median | hundredths) (\($ratios | min | hundredths)-\(
                $ratios | max | hundredths)) |" end) as $beside |
                "| `\($name)` |\($beside) \(spread(.checksPerSecond)) | \(middle(.latencyMicros.p50)) | \(spread(.latencyMicros.p99)) | \(
                middle(.serverCpuMicrosPerCheck) | tenths) | \(middle(.clientCpuMicrosPerCheck) | tenths) | \(
                middle(.forwardedShare) * 100 | round) % | \(middle(.meanBatch) | tenths) | \(
                if all($this[]; .verdict.ok) then "yes" else "NO" end) |" end'
        done
    done
}

# live NODE: keys that a node holds.
live() { curl -s "http://$(address api "$1")/metrics" | awk 'index($1, "stint_keys") == 1 {sum += $2} END {printf "%.0f", sum}'; }

# fill POLICY KEYS: uses so many keys once. They are drawn at random out of nearly 10 million, so most are new.
fill() {
    local left=$2 n=0
    while ((left > 0)); do
        n=$((n + 1))
        bench --policy "$1" --protocol grpc --callers 8 --batch 500 --keys 9999999 \
            --key-prefix "$(printf '%-14s%02d' "$1" $n | tr ' ' -)" --count $((left < 1000000 ? left : 1000000)) > /dev/null
        left=$((left - 1000000))
    done
}

# machine: what all of it runs on, and how, in a line.
machine() {
    echo "$(nproc) cores ($(awk -F ': *' '/^model name/ { print $2; exit }' /proc/cpuinfo)), $(
        awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo), Linux $(uname -r), $(go env GOVERSION), commit $(
        git rev-parse --short HEAD 2> /dev/null || echo unknown), $SHARDS shards, GOMAXPROCS of a node: ${NODE_PROCS:-all cores}"
}
