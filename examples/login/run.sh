#!/bin/sh
# Forty machines guess one password at once. Then its owner logs in.
set -eu
. "$(dirname "$0")/../ask.sh"
answers=$(mktemp -d)
trap 'rm -r "$answers"' EXIT

attempt() { # attempt ADDRESS: reserve one try at the account
    ask LimitService/Reserve '{"ttl":"10s","check":{"entries":[
        {"policy":"login-pair","key":"user:'"$run/$1"'"},
        {"policy":"login-account","key":"user:'"$run"'"},
        {"policy":"login-address","key":"'"$1"'"}]}}'
}

guesses=''
for i in $(seq 40); do
    attempt "192.0.2.$i" > "$answers/$i" &
    guesses="$guesses $!"
done
for guess in $guesses; do
    wait "$guess"
done
echo "40 guesses at once, from 40 addresses: $(cat "$answers"/* | admitted) reach the password."

for i in $(seq 40); do
    hold=$(field holdId < "$answers/$i")
    if [ -n "$hold" ]; then
        ask LimitService/Settle '{"holdId":"'"$hold"'","failed":{}}' > "$answers/last"
    fi
done
echo "All 20 are wrong. The next one is denied by $(attempt 192.0.2.77 | denied_by)"

answer=$(ask LimitService/Reserve '{"ttl":"10s","check":{"entries":[
    {"policy":"login-device","key":"user:'"$run"'/device:9f2c"},
    {"policy":"login-address","key":"198.51.100.7"}]}}')
if echo "$answer" | allowed; then
    ask LimitService/Settle '{"holdId":"'"$(echo "$answer" | field holdId)"'","success":{}}' > "$answers/last"
    echo "The owner, from a device that is known: allowed"
fi
