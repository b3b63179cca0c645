#!/bin/sh
# Twelve probes at once for an operator who may have three. Then all come back, and each return is told twice.
set -eu
. "$(dirname "$0")/../ask.sh"
answers=$(mktemp -d)
trap 'rm -r "$answers"' EXIT

probes=''
for i in $(seq 12); do
    ask LimitService/Check '{"entries":[{"policy":"probes","key":"operator:'"$run"'"}],"idempotencyId":"commission-'"$run-$i"'"}' \
        > "$answers/$i" &
    probes="$probes $!"
done
for probe in $probes; do
    wait "$probe"
done
out=$(cat "$answers"/* | admitted)
echo "$out of 12 are commissioned."

for i in $(seq 12); do
    if allowed < "$answers/$i"; then
        back='{"policy":"probes","key":"operator:'"$run"'","addUsed":"-1","idempotencyId":"return-'"$run-$i"'"}'
        ask LimitService/Adjust "$back" > "$answers/last"
        ask LimitService/Adjust "$back" > "$answers/last"
    fi
done
left=$(ask LimitService/Get '{"entries":[{"policy":"probes","key":"operator:'"$run"'"}]}' | number commissioned used)
echo "All $out are returned, each of them twice: $left are out."
