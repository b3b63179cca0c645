#!/bin/sh
# Thirty guesses at one code, all at once.
set -eu
. "$(dirname "$0")/../ask.sh"
answers=$(mktemp -d)
trap 'rm -r "$answers"' EXIT

guesses=''
for i in $(seq 30); do
    ask LimitService/Reserve '{"ttl":"10s","check":{"entries":[
        {"policy":"otp-verify","key":"code:'"$run"'"},
        {"policy":"otp-verify-user","key":"user:'"$run-$i"'"}]}}' > "$answers/$i" &
    guesses="$guesses $!"
done
for guess in $guesses; do
    wait "$guess"
done
echo "$(cat "$answers"/* | admitted) of 30 guesses are compared with the code."
denial=$(cat "$answers"/* | grep otp-verify/tries | head -n 1)
echo "The rest is denied by $(echo "$denial" | denied_by): $(echo "$denial" | field reason)"
