# What an operator does with the packages before.deb and now.deb, in a Debian with systemd. TestRelease runs it.
cd /

# An install starts nothing. The units can be read without a word, and that of a node lets it do little.
dpkg -i before.deb
[ "$(systemctl is-active stint)" = inactive ] && [ "$(systemctl is-enabled stint)" = disabled ]
[ -z "$(systemd-analyze verify --man=no stint.service stint-backup.service stint-backup.timer 2>&1)" ]
systemd-analyze security --offline=true --threshold=20 /lib/systemd/system/stint.service | tail -n 1

# The unit is active when its node is ready, and not before.
stint version | grep '^stint v0.1.9 [0-9a-f]\{40\} '
cp policies.yaml /etc/stint/policies.yaml
echo 'policies: /etc/stint/policies.yaml' >> /etc/stint/stint.yaml
systemctl start stint
[ "$(systemctl show -P StatusText stint)" = ready ]
stint status | grep 'v0.1.9$'
stint check login user:42
stint check login user:42

# An upgrade keeps the configuration, as it was changed, and the data, and restarts nothing.
node=$(systemctl show -P MainPID stint)
dpkg -i now.deb
grep '^policies: ' /etc/stint/stint.yaml
[ "$(systemctl show -P MainPID stint)" = "$node" ]
stint status | grep 'v0.1.9$'
systemctl restart stint
stint status | grep 'v0.2.0$'
stint get login user:42 -o json | grep '"used":"2"'
[ "$(stat -c '%U %a' /var/lib/stint)" = 'stint 700' ]

# A backup is made when somebody asks for it, or enables the timer.
[ "$(systemctl is-enabled stint-backup.timer)" = disabled ]
install -d -o stint -m 0700 /var/backups/stint
systemctl start stint-backup.service
ls /var/backups/stint | grep .
systemctl enable --now stint-backup.timer

# A node that was killed is started again; one whose configuration is wrong is not, and says why last.
kill -KILL "$(systemctl show -P MainPID stint)"
until [ "$(systemctl show -P NRestarts stint) $(systemctl is-active stint)" = '1 active' ]; do sleep 0.2; done
systemctl stop stint
[ "$(systemctl show -P Result stint)" = success ]
echo 'shards: many' >> /etc/stint/stint.yaml
! systemctl start stint
[ "$(systemctl show -P ActiveState -P ExecMainStatus stint | sort | tr '\n' ' ')" = '2 failed ' ]
journalctl -t stint -n 1 -o cat | grep '^stint: /etc/stint/stint.yaml:[0-9]*: --shards: .*"many"'
sed -i '/^shards: /d' /etc/stint/stint.yaml

# A removal stops the node. Neither it nor a purge takes the data.
systemctl enable --now stint
dpkg --remove stint
[ "$(systemctl is-active stint)" != active ] && [ "$(systemctl is-active stint-backup.timer)" != active ]
[ ! -e /usr/bin/stint ] && [ -e /etc/stint/stint.yaml ]
dpkg --purge stint
[ ! -e /etc/stint/stint.yaml ]
[ -n "$(ls /var/lib/stint)" ] && id stint
