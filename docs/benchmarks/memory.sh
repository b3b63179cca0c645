#!/usr/bin/env bash
# Measures what a key costs a process in resident memory, on one node, on each of three, and in a Redis without persistence with
# as many keys of the same length; and how soon a node is small again after keys of a short window have ended. Resident is VmRSS
# above that of the process when it was empty. Needs Go, jq, curl, redis-server, redis-cli and Linux' /proc. Prints Markdown tables.
#
#   docs/benchmarks/memory.sh [keys, default 1000000] [what is measured, default "one three redis expire"]
source "$(dirname "$0")/common.sh"
keys=${1:-1000000} what=${2:-one three redis expire}

cat > "$work/policies.yaml" << 'YAML'
policies:
  window: {limits: [{name: day, quota: 1000000, fixed_window: {period: 24h, anchor: first_hit}}]}
  bucket: {limits: [{name: burst, quota: 100, token_bucket: {refill: 100, per: 24h}}]}
  short: {limits: [{name: moment, quota: 1000000, fixed_window: {period: 10s, anchor: first_hit}}]}
YAML

of() { awk -v field="$1:" '$1 == field {printf "%.0f", $2 * 1024}' "/proc/${pids[$2]}/status"; } # of VmRSS|VmHWM NAME
mib() { echo $(($1 >> 20)); }
# perkey NAME WHAT EMPTY [KEYS, default those of node 1]: resident bytes of a key now, after 15 s, and at most.
perkey() {
    local count now later
    count=${4:-$(live 1)} now=$(of VmRSS "$1")
    sleep 15
    later=$(of VmRSS "$1")
    echo "| $2 | $count | $(((now - $3) / count)) | $(((later - $3) / count)) | $((($(of VmHWM "$1") - $3) / count)) | $(mib "$3") |"
}

machine
printf '\n| what | keys | bytes a key | 15 s later | at most | empty, MiB |\n|-|-|-|-|-|-|\n'
for policy in window bucket; do
    if [[ " $what " == *" one "* ]]; then
        cluster 1
        empty=$(of VmRSS node-1)
        fill $policy "$keys"
        perkey node-1 "$policy, one node" "$empty"
    fi
    if [[ " $what " == *" three "* ]]; then
        cluster 3
        declare -a empties=()
        for n in 1 2 3; do empties[n]=$(of VmRSS "node-$n"); done
        fill $policy "$keys"
        for n in 1 2 3; do perkey "node-$n" "$policy, node $n of three" "${empties[n]}"; done
    fi
done
stop_cluster

# redis_fill AWK: sends the commands that the awk expression prints for the key k.
redis_fill() {
    awk -v keys="$keys" 'function say(all,   i, n, part) {
            n = split(all, part, " ")
            printf "*%d\r\n", n
            for (i = 1; i <= n; i++) printf "$%d\r\n%s\r\n", length(part[i]), part[i]
        }
        BEGIN { for (i = 0; i < keys; i++) { k = sprintf("window--------01:%08d", i); '"$1"' } }' |
        redis-cli -p $((base + 51)) --pipe > /dev/null
}
if [[ " $what " == *" redis "* ]]; then
    for kind in counter "counter that expires" "bucket that expires"; do
        redis redis $((base + 51)) --appendonly no
        empty=$(of VmRSS redis)
        case $kind in
            counter) redis_fill 'say("INCR " k)' ;;
            counter*) redis_fill 'say("INCR " k); say("EXPIRE " k " 86400")' ;;
            *) redis_fill 'say("HSET " k " tokens 99 ts 1700000000000"); say("EXPIRE " k " 86400")' ;;
        esac
        perkey redis "Redis, $kind" "$empty" "$(redis-cli -p $((base + 51)) dbsize)"
        stop redis
    done
fi

if [[ " $what " == *" expire "* ]]; then
    cluster 1
    empty=$(of VmRSS node-1)
    fill short "$keys"
    filled=$SECONDS count=$(live 1) full=$(of VmRSS node-1)
    printf '\n| keys of a window of 10 s | resident MiB above empty | after s: 10 | 20 | 30 | 60 | 120 |\n|-|-|-|-|-|-|-|\n'
    printf '| %s | %s |' "$count" "$(mib $((full - empty)))"
    for after in 10 20 30 60 120; do
        while ((SECONDS - filled < after)); do sleep 0.2; done
        printf ' %s keys, %s MiB |' "$(live 1)" "$(mib $(($(of VmRSS node-1) - empty)))"
    done
    echo
fi
