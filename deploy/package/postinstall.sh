#!/bin/sh
# After an install or upgrade: makes the user and its directory. Nothing is started or restarted: when a node may stop is for its cluster to say.
set -e
if ! getent passwd stint > /dev/null; then
    if command -v systemd-sysusers > /dev/null; then
        systemd-sysusers stint.conf
    elif command -v useradd > /dev/null; then
        useradd --system --user-group --home-dir /var/lib/stint --shell /usr/sbin/nologin stint
    else
        addgroup -S stint 2> /dev/null || true # busybox, whose adduser -S makes no group
        adduser -S -D -H -h /var/lib/stint -s /sbin/nologin -G stint stint
    fi
fi
[ -d /var/lib/stint ] || install -d -o stint -g stint -m 0700 /var/lib/stint
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if systemctl --quiet is-active stint.service; then
        echo "stint: the node still runs the release before. When its cluster is healthy: systemctl restart stint"
    fi
fi
