#!/usr/bin/env bash
# The time that nnbinference adds to a frame over the driver's own, as its messages tell both: for pictures in
# memory that it offered, and, behind an element that keeps the offer from upstream, in memory that it copies.
# The two take turns.
#
#     doors/gstreamer/benches/added_latency.sh MODEL [SIDE [FRAMES [ROUNDS]]]
#
# GST_PLUGIN_PATH names the plugin's directory. WAIT is the wait strategy: with "spin" nothing sleeps, with "auto" the
# wake-up of a sleeping thread is part of the time.
set -euo pipefail
model=$1 side=${2:-224} frames=${3:-800} rounds=${4:-3} wait=${WAIT:-spin}
caps="video/x-raw,format=RGB,width=$side,height=$side"

added() {
    gst-launch-1.0 -m videotestsrc num-buffers="$frames" pattern=ball ! "$caps" ! identity drop-allocation="$1" ! \
        nnbinference model-file="$model" wait="$wait" ! fakesink 2>/dev/null |
        sed -n 's/.*latency-us=(guint64)\([0-9]*\), driver-us=(guint64)\([0-9]*\).*/\1 \2/p' |
        tail -n +50 | awk '{ print $1 - $2, $2 }' | sort -n |
        awk -v what="$2" '{ added[NR] = $1; sum += $2 }
            END { printf "%-18s added %d us (%d to %d), model %.0f us, %d frames\n", what,
                added[int(NR / 2)], added[int(NR / 10)], added[int(NR * 9 / 10)], sum / NR, NR }'
}

echo "median (10th to 90th percentile)"
for ((round = 0; round < rounds; round++)); do
    added false "memory of ours"
    added true "copied"
done
