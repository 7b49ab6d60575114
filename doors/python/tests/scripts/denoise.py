"""Takes noise off speech, block after block, by two models whose states are inputs and outputs."""
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

block_len, block_shift = 512, 128
interpreter_1 = Interpreter(model_path=sys.argv[1])
interpreter_1.allocate_tensors()
interpreter_2 = Interpreter(model_path=sys.argv[2])
interpreter_2.allocate_tensors()
input_details_1, output_details_1 = interpreter_1.get_input_details(), interpreter_1.get_output_details()
input_details_2, output_details_2 = interpreter_2.get_input_details(), interpreter_2.get_output_details()
states_1 = np.zeros(input_details_1[1]["shape"]).astype("float32")
states_2 = np.zeros(input_details_2[1]["shape"]).astype("float32")

time = np.arange(16000) / 16000
audio = (0.3 * np.sin(2 * np.pi * 440 * time) + np.random.RandomState(1).normal(0, 0.05, time.size)).astype("float32")
in_buffer = np.zeros(block_len).astype("float32")
out_buffer = np.zeros(block_len).astype("float32")
for idx in range(60):
    in_buffer[:-block_shift] = in_buffer[block_shift:]
    in_buffer[-block_shift:] = audio[idx * block_shift : (idx + 1) * block_shift]
    in_block_fft = np.fft.rfft(in_buffer)
    in_mag = np.reshape(np.abs(in_block_fft), (1, 1, -1)).astype("float32")
    in_phase = np.angle(in_block_fft)
    interpreter_1.set_tensor(input_details_1[1]["index"], states_1)
    interpreter_1.set_tensor(input_details_1[0]["index"], in_mag)
    interpreter_1.invoke()
    out_mask = interpreter_1.get_tensor(output_details_1[0]["index"])
    states_1 = interpreter_1.get_tensor(output_details_1[1]["index"])
    estimated = np.fft.irfft(in_mag * out_mask * np.exp(1j * in_phase))
    estimated = np.reshape(estimated, (1, 1, -1)).astype("float32")
    interpreter_2.set_tensor(input_details_2[1]["index"], states_2)
    interpreter_2.set_tensor(input_details_2[0]["index"], estimated)
    interpreter_2.invoke()
    out_block = interpreter_2.get_tensor(output_details_2[0]["index"])
    states_2 = interpreter_2.get_tensor(output_details_2[1]["index"])
    out_buffer[:-block_shift] = out_buffer[block_shift:]
    out_buffer[-block_shift:] = np.zeros(block_shift)
    out_buffer += np.squeeze(out_block)
    print(" ".join("%.2f" % (abs(sample) + 1e-9) for sample in out_buffer[:block_shift:16]))
