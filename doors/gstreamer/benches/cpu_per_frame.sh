#!/usr/bin/env bash
# Processor time per frame of a live video of 30 frames a second: nnbinference in gst-launch, beside LiteRT in
# a Python appsink, each less the same pipeline without inference. The three take turns.
#
#     doors/gstreamer/benches/cpu_per_frame.sh MODEL [SIDE [FRAMES [ROUNDS]]]
#
# PYTHON names an interpreter with PyGObject and ai-edge-litert 2.3.0; GST_PLUGIN_PATH the plugin's directory.
set -euo pipefail
here=$(dirname "$0")
model=$1 side=${2:-224} frames=${3:-300} rounds=${4:-5}
python=${PYTHON:-python3}
caps="video/x-raw,format=RGB,width=$side,height=$side,framerate=30/1"
video() {
    local frames=$1
    shift
    gst-launch-1.0 -q videotestsrc is-live=true num-buffers="$frames" pattern=ball ! "$caps" ! "$@"
}
TIMEFORMAT='%U %S'

# Milliseconds of processor time of a command, its children included.
cpu() {
    local took
    took=$( { time "$@" >/dev/null 2>&1; } 2>&1 )
    awk -v took="$took" 'BEGIN { split(took, t, " "); print (t[1] + t[2]) * 1000 }'
}

for ((round = 0; round < rounds; round++)); do
    without=$(cpu video "$frames" fakesink)
    element=$(cpu video "$frames" nnbinference model-file="$model" ! fakesink)
    peer=$(cpu "$python" "$here/appsink_litert.py" "$model" "$frames")
    start=$(cpu "$python" "$here/appsink_litert.py" "$model" 1)
    begin=$(cpu video 1 nnbinference model-file="$model" ! fakesink)
    awk -v frames="$frames" -v without="$without" -v element="$element" -v peer="$peer" -v start="$start" \
        -v begin="$begin" 'BEGIN {
        printf "per frame: video %.2f ms, with nnbinference %.2f ms, with LiteRT in an appsink %.2f ms\n",
            without / frames, (element - begin) / frames, (peer - start) / frames
    }'
done
