# What the scripts of the recipes share: a call, and the parts of its answer that they look at. Programs use a JSON
# library; this is enough for sh and curl.
server=${STINT_ADDR:-127.0.0.1:7400}
server=${server%%,*} # of several, the first
server=${server#http://}
run=$$ # in the keys and ids of a script, so that it can be run again

# ask SERVICE/METHOD JSON
ask() { curl -s "http://$server/stint.v1.$1" -H 'content-type: application/json' -d "$2"; echo; }

# Each of these reads an answer.
allowed() { grep -qE '"decision": ?\{"allowed": ?true'; }
admitted() { grep -oE '"decision": ?\{"allowed": ?true' | wc -l | tr -d ' '; }     # how many of a batch
field() { sed -nE 's/.*"'"$1"'": ?"([^"]*)".*/\1/p'; }                             # field NAME: a text
denied_by() { sed -nE 's/.*"deniedBy": ?\[([^]]*)\].*/\1/p' | tr -d '" '; }
number() { # number LIMIT FIELD: a number of that limit
    grep -oE '"limit": ?"'"$1"'"[^}]*' | head -n 1 | sed -nE 's/.*"'"$2"'": ?"?([0-9]+).*/\1/p'
}
