"""What a Python program does without nnburst: frames from an appsink into LiteRT.

    python3 appsink_litert.py MODEL FRAMES
"""
import sys

import gi
import numpy

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402
from ai_edge_litert.interpreter import Interpreter  # noqa: E402

model, frames = sys.argv[1], int(sys.argv[2])
interpreter = Interpreter(model, num_threads=1)
interpreter.allocate_tensors()
taken = interpreter.get_input_details()[0]
given = interpreter.get_output_details()[0]["index"]
_, height, width, _ = taken["shape"]

Gst.init(None)
pipeline = Gst.parse_launch(
    f"videotestsrc is-live=true num-buffers={frames} pattern=ball ! "
    f"video/x-raw,format=RGB,width={width},height={height},framerate=30/1 ! "
    "appsink name=sink sync=false"
)
sink = pipeline.get_by_name("sink")
pipeline.set_state(Gst.State.PLAYING)
best = []
while (sample := sink.emit("pull-sample")) is not None:
    buffer = sample.get_buffer()
    ok, pixels = buffer.map(Gst.MapFlags.READ)
    picture = numpy.frombuffer(pixels.data, numpy.uint8)[: height * width * 3]
    interpreter.set_tensor(taken["index"], picture.reshape(1, height, width, 3))
    buffer.unmap(pixels)
    interpreter.invoke()
    scores = interpreter.get_tensor(given)[0]
    best.append(int(numpy.argpartition(scores, -5)[-1]))
pipeline.set_state(Gst.State.NULL)
print(len(best), "frames")
