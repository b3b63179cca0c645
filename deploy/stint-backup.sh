#!/bin/sh
# Writes a backup into a directory, checks it, and deletes backups that are too old. Run by stint-backup.service.
#
#   stint-backup.sh DIR [DAYS]      STINT_ADDR says where the cluster is
#
# Nothing is deleted before the new backup is complete and was read back.
set -eu
dir=$1
days=${2:-14}
umask 077
mkdir -p "$dir"
file=$dir/stint-$(date -u +%Y%m%dT%H%M%SZ).backup
stint backup "$file"
stint restore "$file" --data-dir "$dir/never-made" --dry-run > /dev/null
find "$dir" -maxdepth 1 -type f \( -name 'stint-*.backup' -o -name '.stint-*.backup.*.part' \) -mtime "+$days" ! -path "$file" -delete
echo "$file"
