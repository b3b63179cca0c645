#!/bin/sh
# What each plan has, and that a denial by the day leaves the burst alone.
set -eu
. "$(dirname "$0")/../ask.sh"

for tier in free researcher compliance vendor; do
    answer=$(ask LimitService/Get '{"entries":[{"policy":"regulatory","key":"key:new","tier":"'$tier'"}]}')
    printf '%-11s %-13s %s a day\n' "$tier" \
        "$(echo "$answer" | number burst remaining) at once" "$(echo "$answer" | number daily remaining)"
done
answer=$(ask LimitService/Check '{"entries":[{"policy":"regulatory","key":"key:own","tier":"internal","cost":"2000000"}]}')
if echo "$answer" | allowed; then
    echo 'internal    unlimited'
fi

answer=$(ask LimitService/Adjust '{"policy":"regulatory","key":"key:full","limit":"daily","setUsed":"200"}')
answer=$(ask LimitService/Check '{"entries":[{"policy":"regulatory","key":"key:full"}]}')
echo "With a full day and a full bucket: denied by $(echo "$answer" | denied_by)," \
    "and the burst still has $(echo "$answer" | number burst remaining)."
