#!/bin/sh
# One account, and a program that solves every challenge.
set -eu
. "$(dirname "$0")/../ask.sh"

passed=0
solved=0
for i in $(seq 30); do
    answer=$(ask LimitService/Check '{"entries":[{"policy":"login","key":"user:'"$run"'"}]}')
    if echo "$answer" | allowed; then
        passed=$((passed + 1))
    elif [ "$(echo "$answer" | field outcome)" = OUTCOME_CHALLENGE ]; then
        solved=$((solved + 1))
        ask LimitService/Adjust '{"policy":"login","key":"user:'"$run"'","limit":"challenge","reset":{},"idempotencyId":"'"$run-$i"'"}' > /dev/null
    else
        break
    fi
done
echo "$passed attempts after $solved challenges, then $(echo "$answer" | field outcome) by $(echo "$answer" | denied_by): $(echo "$answer" | field reason)"
