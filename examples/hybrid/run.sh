#!/bin/sh
# Fifteen requests of one address, as fast as they come.
set -eu
. "$(dirname "$0")/../ask.sh"

passed=0
for i in $(seq 15); do
    answer=$(ask LimitService/Check '{"entries":[{"policy":"osa","key":"192.0.2.15/'"$run"'"}]}')
    if echo "$answer" | allowed; then
        passed=$((passed + 1))
    fi
done
echo "$passed allowed, then denied by $(echo "$answer" | denied_by): $(echo "$answer" | field reason)"
echo "The hour has counted $(echo "$answer" | number hour used)."
