#!/usr/bin/env bash
# Makes what each host of a production cluster needs: a directory with deploy/compose.yml, its .env and its secrets.
#
#   deploy/hosts.sh DIR NAME=ADDRESS...
#   deploy/hosts.sh hosts stint1=10.0.0.11 stint2=10.0.0.12 stint3=10.0.0.13
#
# ADDRESS is the IPv4 address of the host by which clients and other hosts reach it. The command stint must be in PATH.
# What is there is never replaced. So the same command with one more NAME=ADDRESS makes a directory for one more host.
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "usage: deploy/hosts.sh DIR NAME=ADDRESS..." >&2
    exit 2
fi
here=$(dirname "$0")
dir=$1
shift
umask 077 # nearly all of it is secret
mkdir -p "$dir"

# For all hosts: the key by which nodes recognize each other, the authority by which clients recognize nodes, and the first
# token, which may do everything. ca.key stays here: whoever has it can pass for a node to every client.
[ -e "$dir/cluster.key" ] || stint tool certs cluster-key "$dir/cluster.key"
[ -e "$dir/ca.crt" ] || stint tool certs ca --out "$dir"
[ -e "$dir/admin.token" ] || stint token generate > "$dir/admin.token"

clients= # addresses of all APIs
for host in "$@"; do
    name=${host%%=*} address=${host#*=}
    clients+=${clients:+,}https://$address:7400
    join= # gossip addresses of the others
    for other in "$@"; do
        [ "$other" = "$host" ] || join+=${join:+,}${other#*=}:7402
    done

    mkdir -p "$dir/$name/secrets"
    [ -e "$dir/$name/secrets/api.crt" ] ||
        stint tool certs api "$address" --ca-cert "$dir/ca.crt" --ca-key "$dir/ca.key" --out "$dir/$name/secrets"
    cp "$dir/cluster.key" "$dir/ca.crt" "$dir/admin.token" "$dir/$name/secrets"
    cp "$here/compose.yml" "$dir/$name/compose.yml"
    [ -e "$dir/$name/.env" ] || cat > "$dir/$name/.env" << END
STINT_NODE_ID=$name
STINT_ADDRESS=$address
STINT_JOIN=$join
STINT_BOOTSTRAP_EXPECT=$#
STINT_MEMORY=2g
END
done

# For administrators and backups: `set -a; . DIR/client.env` makes every command of stint ask this cluster.
cat > "$dir/client.env" << END
STINT_ADDR=$clients
STINT_CA=$(realpath "$dir")/ca.crt
STINT_TOKEN_FILE=$(realpath "$dir")/admin.token
END
