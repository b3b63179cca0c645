#!/bin/sh
# A whole month in some seconds: a server whose clock this script moves, a receiver of its events, and a customer.
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
started=
trap 'kill $started 2> /dev/null || true; wait; rm -rf "$work"' EXIT
stint=${STINT:-./stint}

# await FILE PATTERN: what stands behind the pattern in a file to which a program writes
await() {
    tries=0
    until grep -q "$2" "$work/$1"; do
        tries=$((tries + 1))
        if [ $tries -ge 600 ]; then echo "no \"$2\" in:" >&2; cat "$work"/* >&2; exit 1; fi
        sleep 0.1
    done
    sed -n "s|.*$2 *\([^ ]*\).*|\1|p" "$work/$1" | head -n 1
}

# The server, the receiver, and the sink that leads from one to the other.
TMPDIR=$work "$stint" serve --dev --test-clock --policies "$here/policies.yaml" --sink-allow 127.0.0.1 \
    --api-addr 127.0.0.1:0 --peer-addr 127.0.0.1:0 --gossip-addr 127.0.0.1:0 > "$work/server" 2>&1 &
started=$!
go build -o "$work/receiver.bin" "./$here/receiver"
touch "$work/mail"
"$work/receiver.bin" -listen 127.0.0.1:0 -secret-file "$work/mail.secret" > "$work/mail" &
started="$started $!"
STINT_ADDR=$(await server "stint is ready at")
export STINT_ADDR
. "$here/../ask.sh"
"$stint" sink create mail --kind webhook --url "http://$(await mail "receiving at")/events" --events threshold \
    > "$work/mail.secret" 2> /dev/null

spend() { ask LimitService/Check '{"idempotencyId":"'"$1"'","entries":[{"policy":"exports","key":"customer:acme","cost":"'"$2"'"}]}'; }
seconds() { date -d "$1" +%s; }
advance() { curl -s "$STINT_ADDR/stint.test.v1.TestClock/Advance" -H 'content-type: application/json' -d '{"by":"'"$1"'s"}'; }
# until_end SECONDS: moves the clock to so many seconds after the end of the month
until_end() {
    now=$(seconds "$(advance 0 | field now)")
    advance $(($(seconds "$ends") + $1 - now)) > /dev/null
}
# bills STATE: key, state, units, credits and corrections of the bills in that state
bills() { "$stint" usage --policy exports -o csv 2> /dev/null | cut -d, -f5,8,9,10,11 | grep ",$1,"; }

# An export of unknown size: 500 rows are reserved, 342 were delivered.
hold=$(ask LimitService/Reserve '{"ttl":"3600s","check":{"idempotencyId":"job-1",
    "entries":[{"policy":"exports","key":"customer:acme","cost":"500"}]}}' | field holdId)
ask LimitService/Settle '{"holdId":"'"$hold"'","commit":{"actualCost":["342"]}}' > /dev/null
# 500 more cross 80 %: one mail, whatever follows.
spend job-2 500 > /dev/null
spend job-3 8 > /dev/null
await mail "mail to" > /dev/null
grep "mail to" "$work/mail"

# What is used ends with the month: resetAt.
ends=$(ask LimitService/Get '{"entries":[{"policy":"exports","key":"customer:acme"}]}' | field resetAt)

# The last hour of the month, and 15 minutes after its end.
until_end -3600
last=$(spend job-4 20 | field decisionId)
echo "The bill of the month is open:  $(bills open)"
until_end 60
echo "One minute after its end:       $(bills closed)"
until_end 960
echo "The invoice, 16 minutes after:  $(bills final)"

# The customer complains about the last export. The invoice stays as it is: the rows are credits of the next one.
ask LimitService/Settle '{"decisionId":"'"$last"'","cancel":{}}' > /dev/null
ask LimitService/Settle '{"decisionId":"'"$last"'","cancel":{}}' > /dev/null
echo "After a refund, told twice:     $(bills final)"
echo "The next month:                 $(bills open)"

# An export had counted 50 rows twice. Support corrects the next invoice and says why; told twice, it is done once.
correct() { "$stint" usage correct exports customer:acme -50 --id ticket-4711 --note "ticket 4711: rows counted twice" > /dev/null; }
spend job-5 100 > /dev/null
correct
correct
echo "After a correction, told twice: $(bills open)"
