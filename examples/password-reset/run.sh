#!/bin/sh
# Twenty people ask for a reset of one account at once.
set -eu
. "$(dirname "$0")/../ask.sh"
answers=$(mktemp -d)
trap 'rm -r "$answers"' EXIT

forms=''
for i in $(seq 20); do
    ask LimitService/Check '{"entries":[
        {"policy":"reset-mail","key":"mail:grace-'"$run"'@example.com"},
        {"policy":"reset-address","key":"192.0.2.'"$i"'"}]}' > "$answers/$i" &
    forms="$forms $!"
done
for form in $forms; do
    wait "$form"
done
echo "$(cat "$answers"/* | admitted) of 20 mails are sent."
