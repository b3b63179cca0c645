#!/bin/sh
# Six calls of a model at once.
set -eu
. "$(dirname "$0")/../ask.sh"
answers=$(mktemp -d)
trap 'rm -r "$answers"' EXIT

calls=''
for i in $(seq 6); do
    ask LimitService/Reserve '{"ttl":"60s","check":{"entries":[
        {"policy":"llm-tokens","key":"org:'"$run"'","cost":"2500"},
        {"policy":"llm-calls","key":"org:'"$run"'"}]}}' > "$answers/$i" &
    calls="$calls $!"
done
for call in $calls; do
    wait "$call"
done
state() { ask LimitService/Get '{"entries":[{"policy":"llm-tokens","key":"org:'"$run"'"},{"policy":"llm-calls","key":"org:'"$run"'"}]}'; }
denied=$(cat "$answers"/* | denied_by | grep -c '^llm-calls/running$')
echo "$(cat "$answers"/* | admitted) of 6 run. $denied are denied by llm-calls/running."
echo "$(state | number minute held) tokens are held; none of the denied counts."

for i in $(seq 6); do
    hold=$(field holdId < "$answers/$i")
    if [ -n "$hold" ]; then
        ask LimitService/Settle '{"holdId":"'"$hold"'","commit":{"actualCost":["400","1"]}}' > "$answers/last"
    fi
done
echo "All three are over, with 400 tokens each: $(state | number minute used) are used, $(state | number running used) calls run."
