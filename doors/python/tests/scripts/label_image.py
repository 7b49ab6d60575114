"""Classifies a picture, as the scripts do that come with image classifiers."""
import argparse
import time

import ai_edge_litert.interpreter as tflite
import numpy as np
from PIL import Image


def load_labels(filename):
    with open(filename) as f:
        return [line.strip() for line in f.readlines()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-i", "--image")
    parser.add_argument("-m", "--model_file")
    parser.add_argument("-l", "--label_file")
    parser.add_argument("--input_mean", default=127.5, type=float)
    parser.add_argument("--input_std", default=127.5, type=float)
    parser.add_argument("--num_threads", default=None, type=int)
    parser.add_argument("-e", "--ext_delegate")
    args = parser.parse_args()

    ext_delegate = None
    if args.ext_delegate is not None:
        try:
            ext_delegate = [tflite.load_delegate(args.ext_delegate, {})]
        except (ValueError, OSError):
            print("no delegate, on the CPU")
    interpreter = tflite.Interpreter(
        model_path=args.model_file, experimental_delegates=ext_delegate, num_threads=args.num_threads
    )
    interpreter.allocate_tensors()
    input_details = interpreter.get_input_details()
    output_details = interpreter.get_output_details()

    floating_model = input_details[0]["dtype"] == np.float32
    height = input_details[0]["shape"][1]
    width = input_details[0]["shape"][2]
    img = Image.open(args.image).convert("RGB").resize((width, height))
    input_data = np.expand_dims(img, axis=0)
    if floating_model:
        input_data = (np.float32(input_data) - args.input_mean) / args.input_std
    interpreter.set_tensor(input_details[0]["index"], input_data)
    start_time = time.time()
    interpreter.invoke()
    stop_time = time.time()

    output_data = interpreter.get_tensor(output_details[0]["index"])
    results = np.squeeze(output_data)
    top_k = results.argsort()[-5:][::-1]
    labels = load_labels(args.label_file)
    for i in top_k:
        if floating_model:
            print("{:.4f}: {}".format(float(results[i]), labels[i]))
        else:
            print("{:08.6f}: {}".format(float(results[i] / 255.0), labels[i]))
    assert stop_time >= start_time
