#!/bin/sh
# Before a removal: stops the node, and the backups. An upgrade leaves it alone. The data in /var/lib/stint and the user stay, also at a purge.
set -e
case ${1:-} in
upgrade | failed-upgrade | 1) exit 0 ;; # dpkg, dpkg, rpm
esac
if [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now stint.service stint-backup.timer
fi
