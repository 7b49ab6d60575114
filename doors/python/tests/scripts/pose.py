"""Follows a person's key points: each frame is cropped to where the last one found them."""
import sys

import numpy as np
from PIL import Image
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(model_path=sys.argv[1])
interpreter.allocate_tensors()
input_details = interpreter.get_input_details()
output_details = interpreter.get_output_details()
size = tuple(int(extent) for extent in input_details[0]["shape"][1:3])


def movenet(image):
    interpreter.set_tensor(input_details[0]["index"], image[np.newaxis].astype(input_details[0]["dtype"]))
    interpreter.invoke()
    return interpreter.get_tensor(output_details[0]["index"])


crop = (0.0, 0.0, 1.0, 1.0)
for name in sys.argv[2:]:
    with Image.open(name) as picture:
        picture = picture.convert("RGB")
        width, height = picture.size
        box = (crop[1] * width, crop[0] * height, crop[3] * width, crop[2] * height)
        frame = np.asarray(picture.crop(tuple(int(edge) for edge in box)).resize(size[::-1]))
    keypoints = movenet(frame)[0, 0]
    for y, x, score in keypoints:
        print("%.4f %.4f %.4f" % (y, x, score))
    seen = keypoints[keypoints[:, 2] > 0.2]
    # The picture's middle, a little nearer for each point that was seen.
    margin = 0.01 * len(seen)
    crop = (margin, margin, 1 - margin, 1 - margin)
