# Boots the Debian in directory $1, with namespaces of its own for all that systemd touches, and runs its /life.sh as root.
set -eu
in_it() { nsenter --target "$machine" --mount --net --pid --uts --ipc --cgroup --root --wd "$@"; }

unshare --mount --net --pid --uts --ipc --cgroup --fork --kill-child sh -euc '
    mount --bind "$1" "$1" && cd "$1"
    mount -t proc proc proc && mount --rbind /sys sys && mount -t tmpfs tmpfs run && mount -t tmpfs tmpfs tmp
    mount -t tmpfs tmpfs sys/fs/cgroup && mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd || mount -t cgroup2 cgroup2 sys/fs/cgroup
    ip link set lo up
    mkdir old && pivot_root . old && umount --lazy /old
    container=chroot exec /lib/systemd/systemd' sh "$1" &
outside=$!
trap 'kill -KILL $outside' EXIT

until machine=$(tr -d ' ' < "/proc/$outside/task/$outside/children") && [ -n "$machine" ] &&
    in_it systemctl is-system-running --wait | grep 'running\|degraded'; do
    kill -0 $outside
    sleep 0.2
done
in_it sh -eux /life.sh
