#!/usr/bin/env bash
# hosts.sh [PLUGIN [MODELS]]: the plugin in the hosts that people have: analyseplugin and applyplugin, ffmpeg, sox,
# GStreamer, PipeWire's filter-chain; and under valgrind. Each gets the noisy recording, and what comes out is
# compared with the interpreter's. Debian's packages are installed where that is allowed; a host that is not there is
# skipped with a word, unless NNBURST_REQUIRE names it.
#
# PLUGIN is the library as cargo builds it (target/debug/libnnburst_ladspa.so), MODELS the folder of the shared models.
# With NNBURST_DRIVER set to the command, a driver in a process of its own is killed in mid stream as well.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
plugin=$(realpath "${1:-${CARGO_TARGET_DIR:-$root/target}/debug/libnnburst_ladspa.so}")
models=$(realpath "${2:-${NNBURST_SHARED:-$root/../shared}/models}")
noisy=$models/dtln_pipeline/speech_noisy.wav
golden=$models/dtln_pipeline/denoised_float.wav

packages=(applyplugin:ladspa-sdk ffmpeg:ffmpeg sox:sox gst-launch-1.0:gstreamer1.0-tools pipewire:pipewire
    pw-cat:pipewire-bin wireplumber:wireplumber dbus-run-session:dbus valgrind:valgrind python3:python3)
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    missing=()
    for package in "${packages[@]}"; do
        command -v "${package%%:*}" >/dev/null || missing+=("${package#*:}")
    done
    # GStreamer's own wrapper of LADSPA plugins, and its elements for WAV files.
    for package in gstreamer1.0-plugins-bad gstreamer1.0-plugins-good; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    if [ "${#missing[@]}" -gt 0 ]; then
        { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1 ||
            echo "could not install ${missing[*]}"
    fi
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Beside the plugin, where it looks for its networks.
mkdir "$work/ladspa" "$work/ladspa/dtln"
cp "$plugin" "$work/ladspa/nnburst.so"
for number in 1 2; do
    cp "$models/dtln_float_$number/model.tflite" "$work/ladspa/dtln/dtln_$number.tflite"
done
chmod -R go-w "$work"
export LADSPA_PATH=$work/ladspa GST_REGISTRY=$work/registry.bin
unset NNBURST_DTLN_DIR NNBURST_LADSPA
failed=0

# has HOST TOOL...: whether a host can run here; says so where it can't.
has() {
    local host=$1 tool
    for tool in "${@:2}"; do
        command -v "$tool" >/dev/null && continue
        echo "left out: $host (no $tool)"
        case ",${NNBURST_REQUIRE:-}," in *",$tool,"*) failed=1 ;; esac
        return 1
    done
}

# judged HOST COMMAND...: runs a check and tells the outcome.
judged() {
    local host=$1
    if "${@:2}"; then echo "ok: $host"; else
        echo "FAILED: $host"
        failed=1
    fi
}

# same OUT DELAY: whether OUT is the golden sound, DELAY samples later, within 1e-4.
same() { python3 "$here/sound.py" same "$1" "$golden" "$2"; }

# The golden sound is itself 384 samples late, by the networks' window; the plugin's delay is 768 in all.
late=384
aligned=-384

if has "ladspa-sdk" analyseplugin applyplugin python3; then
    judged "analyseplugin lists both plugins" \
        test "$(analyseplugin "$work/ladspa/nnburst.so" | grep -c '^Plugin Label: "denoise_')" = 2
    applyplugin "$noisy" "$work/apply.wav" nnburst.so denoise_mono 1 100 >/dev/null
    judged "applyplugin" same "$work/apply.wav" "$late"
fi

if has ffmpeg ffmpeg python3; then
    filter="ladspa=file=$work/ladspa/nnburst.so:p=denoise_mono:c=c0=1|c1=100"
    ffmpeg -v error -i "$noisy" -af "$filter" "$work/ffmpeg.wav"
    judged "ffmpeg" same "$work/ffmpeg.wav" "$late"
    ffmpeg -v error -i "$noisy" -af "$filter:latency=1" "$work/ffmpeg-aligned.wav"
    judged "ffmpeg that makes up for the latency" same "$work/ffmpeg-aligned.wav" "$aligned"
    ffmpeg -v error -i "$noisy" -ar 44100 -af "aresample=44100,$filter" "$work/refused.wav" 2>"$work/refused" || true
    judged "ffmpeg at a rate that is refused, with the reason" grep -q "44100 Hz: the networks take" "$work/refused"
    ffmpeg -v error -i "$noisy" -ac 2 \
        -af "aresample=48000,ladspa=file=$work/ladspa/nnburst.so:p=denoise_stereo:c=c0=1|c1=100" -ar 16000 "$work/stereo.wav"
    judged "ffmpeg in stereo at 48 kHz" python3 "$here/sound.py" alike "$work/stereo.wav" "$golden" "$noisy"
fi

if has sox sox python3; then
    # sox wants a value for each output port, too, but for the one that -l reads.
    sox -D "$noisy" "$work/sox.wav" ladspa -l nnburst denoise_mono 1 100 0
    judged "sox that makes up for the latency" same "$work/sox.wav" "$aligned"
    sox -D "$noisy" "$work/sox-late.wav" ladspa nnburst denoise_mono 1 100 0 0
    judged "sox" same "$work/sox-late.wav" "$late"
fi

if has GStreamer gst-launch-1.0 gst-inspect-1.0 python3; then
    if gst-inspect-1.0 ladspa-nnburst-so-denoise-mono >/dev/null 2>&1; then
        gst-launch-1.0 -q filesrc location="$noisy" ! wavparse ! audioconvert ! ladspa-nnburst-so-denoise-mono ! \
            audioconvert dithering=none ! audio/x-raw,format=S16LE ! wavenc ! filesink location="$work/gst.wav"
        judged "GStreamer" same "$work/gst.wav" "$late"
    else
        echo "left out: GStreamer (no LADSPA in gstreamer1.0-plugins-bad)"
    fi
fi

if has PipeWire pipewire wireplumber pw-cat dbus-run-session python3; then
    judged "PipeWire's filter-chain" "$here/pipewire.sh" "$noisy" "$work/pipewire.wav"
    judged "the sound from PipeWire" python3 "$here/sound.py" alike "$work/pipewire.wav" "$golden" "$noisy"
fi

# A fifth of a second, as everything is many times slower there. applyplugin loses memory of its own.
if has valgrind valgrind applyplugin python3; then
    python3 "$here/sound.py" cut "$noisy" "$work/short.wav" 3200
    checked() {
        valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=none --log-file="$work/valgrind.log" \
            applyplugin "$work/short.wav" "$work/valgrind.wav" nnburst.so denoise_mono 1 100 >/dev/null
    }
    judged "valgrind finds no error in applyplugin" checked
    judged "and no memory that the plugin lost" awk '/definitely lost/, /^==[0-9]+== $/ { bad += /nnburst/ } END { exit bad > 0 }' \
        "$work/valgrind.log"
fi

if [ -n "${NNBURST_DRIVER:-}" ] && has "a driver that is killed" ffmpeg pkill pgrep python3; then
    NNBURST_LADSPA=device=spawn/nnburst-cpu ffmpeg -v error -re -stream_loop 3 -i "$noisy" -af "$filter" \
        "$work/killed.wav" 2>"$work/killed" &
    host=$!
    # Its driver serves a burst once it has a thread of that name, which takes as long as it takes.
    serves() {
        local driver
        driver=$(pgrep -P "$host") && grep -qsx nnburst-burst "/proc/$driver"/task/*/comm
    }
    until serves || ! kill -0 "$host" 2>/dev/null; do sleep 0.1; done
    sleep 1
    judged "a driver in mid stream is killed" pkill -KILL -P "$host"
    judged "ffmpeg goes on when the driver is killed" wait "$host"
    cat "$work/killed"
    judged "and says so" grep -q "driver nnburst-cpu died (signal 9, SIGKILL); restarted" "$work/killed"
    # It plays, so that its first sound is dry, and some after the death. The recording's last turn is not.
    judged "and its sound is clean again" python3 "$here/sound.py" alike "$work/killed.wav" "$golden" "$noisy" 12
fi
exit "$failed"
