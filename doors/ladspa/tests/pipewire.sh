#!/usr/bin/env bash
# pipewire.sh IN OUT: plays IN into PipeWire's filter-chain with the plugin and records OUT (16 kHz, 16 bits) from it,
# in a daemon of its own without a sound card. LADSPA_PATH leads to the plugin.
set -euo pipefail
if [ "${3:-}" != inner ]; then
    exec dbus-run-session -- "$0" "$1" "$2" inner 2>/dev/null
fi
run=$(mktemp -d)
export XDG_RUNTIME_DIR=$run PIPEWIRE_RUNTIME_DIR=$run XDG_STATE_HOME=$run XDG_CONFIG_HOME=$run
cat >"$run/daemon.conf" <<'CONF'
context.properties = { core.daemon = true core.name = pipewire-0 log.level = 2 default.clock.rate = 48000 }
context.spa-libs = { audio.convert.* = audioconvert/libspa-audioconvert support.* = support/libspa-support }
context.modules = [
    { name = libpipewire-module-protocol-native }
    { name = libpipewire-module-client-node }
    { name = libpipewire-module-client-device }
    { name = libpipewire-module-adapter }
    { name = libpipewire-module-metadata }
    { name = libpipewire-module-spa-node-factory }
    { name = libpipewire-module-link-factory }
    { name = libpipewire-module-session-manager }
    { name = libpipewire-module-access }
    { name = libpipewire-module-filter-chain
        args = {
            node.description = "Microphone without noise"
            filter.graph = { nodes = [ {
                type = ladspa name = denoise plugin = nnburst label = denoise_mono
                control = { "Wet (0-1)" = 1.0 "Attenuation limit (dB)" = 100.0 }
            } ] }
            audio.rate = 48000 audio.channels = 1 audio.position = [ MONO ]
            capture.props = { node.name = noisy media.class = Audio/Sink }
            playback.props = { node.name = clean media.class = Audio/Source }
        }
    }
]
context.objects = [
    # What drives the graph where there is no sound card.
    { factory = spa-node-factory args = {
        factory.name = support.node.driver node.name = clock node.group = pipewire.dummy priority.driver = 20000
    } }
]
CONF
started=()
trap 'kill "${started[@]}" 2>/dev/null; wait; rm -rf "$run"' EXIT
# until_there N COMMAND...: waits until COMMAND succeeds, for so many seconds.
until_there() {
    local tries=$(($1 * 10))
    until "${@:2}" >/dev/null 2>&1; do
        ((tries-- > 0)) || return 1
        sleep 0.1
    done
}
pipewire -c "$run/daemon.conf" &
started+=($!)
until_there 20 pw-link -o
wireplumber &
started+=($!)
has_port() { pw-link "$1" | grep -q "^$2:"; }
until_there 20 has_port -o clean
pw-cat --record --target clean --rate 16000 --channels 1 --format s16 "$2" &
recorder=$!
started+=("$recorder")
is_linked() { pw-link -l | grep -q "<- clean:"; }
until_there 20 is_linked
pw-cat --playback --target noisy "$1"
# What is on its way still.
sleep 0.5
kill -INT "$recorder"
wait "$recorder" || true
