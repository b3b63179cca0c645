#!/bin/sh
# Ten jobs whose answers were lost, so that each is told twice; and a refund that is told twice.
set -eu
. "$(dirname "$0")/../ask.sh"

used() { ask LimitService/Get '{"entries":[{"policy":"exports","key":"customer:'"$run"'"}]}' | number month used; }

for job in $(seq 10); do
    for try in first second; do
        answer=$(ask LimitService/Check '{"idempotencyId":"'"$run-$job"'",
            "entries":[{"policy":"exports","key":"customer:'"$run"'","cost":"20"}]}')
    done
done
echo "10 jobs of 20 rows, each told twice: $(used) rows are counted."

refund='{"decisionId":"'$(echo "$answer" | field decisionId)'","cancel":{}}'
answer=$(ask LimitService/Settle "$refund")
answer=$(ask LimitService/Settle "$refund")
echo "One of them was refunded, twice: $(used) rows are counted."
