#!/usr/bin/env bash
# Boots a tree of Debian 12 with the packages of `cargo xtask dist`, and has its systemd run the services: for all users, for
# one user, and the metrics.
# usage: systemd.sh DIST      (as root, with debootstrap and systemd-nspawn)
# NNBURST_SYSTEMD_TREE names an unpacked tree (minbase, systemd-sysv, dbus, libpam-systemd) to be copied instead.
set -euo pipefail
dist=$(cd "$1" && pwd)
here=$(mktemp -d)
tree=$here/tree
container=

finish() {
    # The container's processes end with it.
    if [ -n "$container" ]; then
        kill "$container" 2>/dev/null || true
        for _ in $(seq 100); do kill -0 "$container" 2>/dev/null || break && sleep 0.1; done
        kill -9 "$container" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$here"
}
trap finish EXIT

fail() {
    echo "systemd: $*" >&2
    in_tree journalctl --no-pager --lines 40 --unit 'nnburst*' >&2 || true
    exit 1
}

# Waits for a command to succeed; the first word is what is waited for.
until_it() {
    local what=$1
    shift
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    fail "$what"
}

in_tree() {
    nsenter --target "$init" --mount --uts --ipc --net --pid --cgroup env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"
}

as() {
    local user=$1 uid
    shift
    uid=$(in_tree id -u "$user")
    in_tree setpriv --reuid="$user" --regid="$user" --init-groups env HOME="/home/$user" XDG_RUNTIME_DIR="/run/user/$uid" "$@"
}

property() {
    in_tree systemctl show --property "$2" --value "$1"
}

echo "== systemd: boot"
if [ -n "${NNBURST_SYSTEMD_TREE:-}" ]; then
    cp -a "$NNBURST_SYSTEMD_TREE" "$tree"
else
    debootstrap --variant=minbase --include=systemd-sysv,dbus,libpam-systemd bookworm "$tree" >"$here/log" 2>&1 ||
        { tail -5 "$here/log" && exit 1; }
fi
machine=$(dpkg --print-architecture)
mkdir "$tree/packages"
cp "$dist"/nnburst_*_"$machine".deb "$tree/packages"
chroot "$tree" sh -c 'dpkg --install /packages/*.deb' >"$here/log" 2>&1 || { cat "$here/log" && exit 1; }
for user in camera stranger; do chroot "$tree" useradd --create-home "$user"; done
chroot "$tree" usermod --append --groups nnburst camera
# systemd-nspawn's own filter of system calls, as of Debian 12, knows no Landlock.
landlock=$(printf -- '--system-call-filter=landlock_%s ' create_ruleset add_rule restrict_self)
# shellcheck disable=SC2086
systemd-nspawn --quiet --register=no --keep-unit --private-network --console=pipe --machine="nnburst-$$" $landlock \
    --directory "$tree" --boot </dev/null >"$here/console" 2>&1 &
container=$!
end=$((SECONDS + 120)) init=
while [ "$SECONDS" -lt "$end" ] && kill -0 "$container" 2>/dev/null; do
    init=$(pgrep --parent "$container" || true)
    [ -n "$init" ] && in_tree timeout 60 systemctl is-system-running --wait >"$here/state" 2>&1 && break
    sleep 0.1
done
if ! grep -q running "$here/state" 2>/dev/null; then
    tail -5 "$here/console"
    # A machine that starts no containers is none to test on; a container that starts with failed units is a fault.
    [ -n "$init" ] && kill -0 "$container" 2>/dev/null && grep -q degraded "$here/state" && fail "units that failed"
    echo "left out: systemd can't be booted here"
    exit
fi
service=nnburst@nnburst-cpu.service
add1=(nnburst bench --builtin add1 --device nnburst-cpu)

echo "== systemd: units"
in_tree sh -c 'systemd-analyze --man=no verify /usr/lib/systemd/system/nnburst* && XDG_RUNTIME_DIR=/run systemd-analyze --man=no --user verify /usr/lib/systemd/user/nnburst*' >"$here/verify" 2>&1 || true
[ ! -s "$here/verify" ] || cat "$here/verify"
[ ! -s "$here/verify" ] || fail "units that systemd complains about"

echo "== systemd: the first client starts the service for all users"
in_tree systemctl --quiet enable --now nnburst@nnburst-cpu.socket
[ "$(property $service ActiveState)" = inactive ] || fail "the service runs before its first client"
in_tree sh -c 'echo "service-dir = /run/nnburst" >/etc/nnburst/nnburst.conf'
as camera "${add1[@]}" --runs 200 >"$here/bench" 2>&1 || { cat "$here/bench" && fail "a member's bench"; }
[ "$(property $service ActiveState)" = active ] || fail "the service isn't active"
[ "$(property $service User)" = nnburst ] || fail "the service is another user's"
if as stranger "${add1[@]}" --runs 1 >"$here/stranger" 2>&1; then fail "a stranger may use the service"; fi
grep -q 'Permission denied' "$here/stranger" && grep -q 'users of group' "$here/stranger" ||
    { cat "$here/stranger" && fail "a stranger isn't told why"; }
pid=$(property $service MainPID)
status=$(in_tree cat "/proc/$pid/status")
for line in NoNewPrivs:.1 Seccomp:.2 CapEff:.0000000000000000 CapBnd:.0000000000000000; do
    grep -q "^$line" <<<"$status" || fail "not $line: $status"
done
[ "$(in_tree readlink "/proc/$pid/ns/net")" != "$(in_tree readlink /proc/1/ns/net)" ] || fail "the service has the network"
if in_tree journalctl --unit $service --grep 'sandbox' >/dev/null; then fail "the sandbox isn't whole under the unit's hardening"; fi

echo "== systemd: real-time bursts within the unit's limits"
in_tree sh -c 'printf "[users.%s]\nrealtime-bursts = 1\n" "$(id -u camera)" >/etc/nnburst/serve.toml'
in_tree systemctl reload $service
as camera "${add1[@]}" --runs 200 --realtime >"$here/bench" 2>&1 || { cat "$here/bench" && fail "a bench in real time"; }
if grep -q 'no burst' "$here/bench"; then cat "$here/bench" && fail "real time is refused"; fi

echo "== systemd: settings are read again"
in_tree sh -c 'printf "[user]\nmodels = 0\n" >/etc/nnburst/serve.toml'
in_tree systemctl reload $service
if as camera "${add1[@]}" --runs 1 >"$here/bench" 2>&1; then fail "a quota isn't kept"; fi
grep -q "the driver's setting user.models" "$here/bench" || { cat "$here/bench" && fail "the quota isn't told"; }
in_tree sh -c 'printf "[user]\nmodles = 0\n" >/etc/nnburst/serve.toml'
in_tree systemctl reload $service
in_tree sh -c ': >/etc/nnburst/serve.toml'
in_tree systemctl reload $service
as camera "${add1[@]}" --runs 1 >/dev/null || fail "the quota is kept after it was taken away"
in_tree journalctl --unit $service --output json --lines 20 >"$here/journal"
grep -q '"NNBURST_MISTAKE":"[^"]*serve.toml:2: unknown field' "$here/journal" || { cat "$here/journal" && fail "no field for the mistake"; }
grep -q '"NNBURST_FILE":"/etc/nnburst/serve.toml"' "$here/journal" || { cat "$here/journal" && fail "no field for the file"; }
[ "$(property $service MainPID)" = "$pid" ] || fail "the service was started anew"

echo "== systemd: a service that dies or hangs comes back"
for _ in $(seq 7); do
    in_tree sh -c "kill -KILL $(property $service MainPID)"
    until_it "a client after the service died" as camera "${add1[@]}" --runs 1
done
in_tree mkdir /run/systemd/system/nnburst@.service.d
in_tree sh -c 'printf "[Service]\nWatchdogSec=4\n" >/run/systemd/system/nnburst@.service.d/test.conf'
in_tree systemctl daemon-reload
in_tree systemctl restart $service
pid=$(property $service MainPID)
in_tree sh -c "kill -STOP $pid"
until_it "the watchdog" sh -c "! nsenter --target $init --pid --mount test -e /proc/$pid"
until_it "a client after the watchdog" as camera "${add1[@]}" --runs 1
[ "$(property $service NRestarts)" -ge 1 ] || fail "systemd counts no restart"
in_tree rm -r /run/systemd/system/nnburst@.service.d
in_tree systemctl daemon-reload

# Starts a client that has a burst for so long.
bench_for() {
    as camera "${add1[@]}" --duration "$1" --period 1 >"$here/bench" 2>&1 &
    bench=$!
    until_it "a client" sh -c "nsenter --target $init --mount --net --pid env NNBURST_SERVICE_DIR=/run/nnburst nnburst dump --json | grep -q '\"kind\":\"burst\"'"
    pid=$(property $service MainPID)
}

# Waits for that client, which has to end with this status; the next one finds another process.
bench_ends_with() {
    local ended=0
    wait $bench || ended=$?
    [ $ended = "$1" ] || { cat "$here/bench" && fail "a client ended with $ended, not $1"; }
    as camera "${add1[@]}" --runs 1 >/dev/null || fail "the next client"
    [ "$(property $service MainPID)" != "$pid" ] || fail "the service is the old process's"
    until_it "the end of the old process" sh -c "! nsenter --target $init --pid --mount test -e /proc/$pid"
}

echo "== systemd: a restart ends the clients' objects"
bench_for 60s
in_tree systemctl restart $service
bench_ends_with 3

echo "== systemd: an upgrade doesn't"
in_tree mkdir -p /run/systemd/system/nnburst@.service.d
in_tree sh -c 'printf "[Service]\nWatchdogSec=2\n" >/run/systemd/system/nnburst@.service.d/test.conf'
in_tree systemctl daemon-reload
in_tree systemctl restart $service
bench_for 8s
in_tree sh -c 'dpkg --install /packages/nnburst_*.deb' >"$here/log" 2>&1 || { cat "$here/log" && fail "the upgrade"; }
[ "$(property $service MainPID)" != "$pid" ] || { cat "$here/log" && fail "the old process goes on as the service"; }
in_tree test -e "/proc/$pid" || fail "the old process has left its client"
bench_ends_with 0
[ "$(property $service ActiveState)" = active ] || fail "the service isn't active after an upgrade"
[ "$(property $service NRestarts)" = 0 ] || fail "the new process is silent for the watchdog"

echo "== systemd: an upgrade to a program that doesn't serve changes nothing"
pid=$(property $service MainPID)
in_tree sh -c 'cp /usr/bin/nnburst /usr/bin/nnburst.new && mv /usr/bin/nnburst.new /usr/bin/nnburst'
in_tree sh -c 'printf "[user]\nmodles = 0\n" >/etc/nnburst/serve.toml'
if in_tree systemctl reload $service 2>/dev/null; then fail "a reload succeeds whose process failed"; fi
in_tree journalctl --unit $service --grep 'the process before goes on' >/dev/null || fail "nobody says why the reload failed"
[ "$(property $service MainPID)" = "$pid" ] || fail "the service is a process that failed"
as camera "${add1[@]}" --runs 1 >/dev/null || fail "a client after a reload that failed"
in_tree sh -c ': >/etc/nnburst/serve.toml'
in_tree systemctl reload $service
[ "$(property $service MainPID)" != "$pid" ] || fail "the old process goes on"

echo "== systemd: a service that took another's place stops, and starts with the next client"
in_tree systemctl stop $service 2>/dev/null
[ "$(property $service ActiveState)" = inactive ] || fail "the service doesn't stop"
as camera "${add1[@]}" --runs 1 >/dev/null || fail "a client after the stop"
[ "$(property $service ActiveState)" = active ] || fail "the service isn't active"
in_tree rm -r /run/systemd/system/nnburst@.service.d
in_tree systemctl daemon-reload

echo "== systemd: metrics"
in_tree systemctl --quiet enable --now nnburst-metrics.service
in_tree bash -c 'for _ in $(seq 100); do
        exec 3<>/dev/tcp/127.0.0.1/9464 && break
        sleep 0.1
    done 2>/dev/null
    printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && cat <&3' >"$here/metrics"
grep -q '^nnburst_up{service="nnburst-cpu"} 1$' "$here/metrics" || { cat "$here/metrics" && fail "metrics"; }

echo "== systemd: a service of one user"
in_tree loginctl enable-linger stranger
until_it "the user's systemd" as stranger systemctl --user is-system-running
as stranger systemctl --user --quiet enable --now nnburst@nnburst-cpu.socket
uid=$(in_tree id -u stranger)
own=(env NNBURST_SERVICE_DIR="/run/user/$uid/nnburst")
as stranger "${own[@]}" "${add1[@]}" --runs 200 >"$here/bench" 2>&1 || { cat "$here/bench" && fail "a user's own service"; }
[ "$(as stranger systemctl --user show --property ActiveState --value $service)" = active ] || fail "the user's service isn't active"
if as camera "${own[@]}" "${add1[@]}" --runs 1 >"$here/bench" 2>&1; then fail "another user may use it"; fi
grep -q "/run/user/$uid" "$here/bench" || { cat "$here/bench" && fail "the path isn't named"; }

echo "== systemd: removal ends the services"
in_tree dpkg --remove nnburst >"$here/log" 2>&1 || { cat "$here/log" && fail "remove"; }
left=$(in_tree find /proc -maxdepth 1 -user nnburst)
[ -z "$left" ] || fail "$left goes on without its package"
in_tree dpkg --purge nnburst >"$here/log" 2>&1 || { cat "$here/log" && fail "purge"; }
left=$(in_tree find /etc/systemd /var/lib -path '*/dpkg/*' -prune -o -name '*nnburst*' -print)
[ -z "$left" ] || fail "purging leaves $left"
echo "systemd: all passed"
