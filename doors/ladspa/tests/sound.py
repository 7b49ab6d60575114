"""Compares the WAV files (16 bits) that hosts wrote with the interpreter's sound.

sound.py same OUT GOLDEN DELAY    OUT is GOLDEN, DELAY samples later, within 1e-4
sound.py alike OUT GOLDEN NOISY [SECONDS]
                                  most pieces of GOLDEN are in OUT (after so many seconds), and not NOISY's noise
sound.py cut IN OUT N             the first N samples
"""

import math
import struct
import sys
import wave

FRAME = 160  # 10 ms at 16 kHz
PIECE = 40  # frames


def read(path):
    """The samples of the first channel, and the parameters."""
    with wave.open(path) as wav:
        parameters = wav.getparams()
        assert parameters.sampwidth == 2, f"{path}: {8 * parameters.sampwidth} bits"
        data = wav.readframes(parameters.nframes)
    values = struct.unpack(f"<{len(data) // 2}h", data)
    return [value / 32768 for value in values[:: parameters.nchannels]], parameters


def same(out, golden, delay):
    delay = int(delay)
    # The interpreter left the end of the recording out, a window less a block.
    out, golden = read(out)[0], read(golden)[0][:-384]
    pairs = [(out[at + delay], want) for at, want in enumerate(golden) if 0 <= at + delay < len(out)]
    apart = max(abs(got - want) for got, want in pairs)
    print(f"    {len(pairs)} samples, at most {apart:.1e} apart")
    return apart <= 1e-4 and len(pairs) > 0.9 * len(golden)


def course(samples):
    """The loudness of each frame."""
    frames = range(0, len(samples) - FRAME + 1, FRAME)
    return [math.sqrt(sum(x * x for x in samples[at : at + FRAME]) / FRAME) for at in frames]


def correlation(xs, ys):
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    both = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    power = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return both / math.sqrt(power) if power else 0


def distance(xs, ys):
    """The difference of two courses in decibels, on average."""
    return sum(abs(math.log10((x + 1e-4) / (y + 1e-4))) for x, y in zip(xs, ys)) * 20 / len(xs)


def alike(out, golden, noisy, seconds="0"):
    """Piece by piece, each wherever it is: hosts that play leave sound out where they have no time, and repeat it."""
    out, golden, noisy = (course(read(path)[0]) for path in (out, golden, noisy))
    out = out[round(float(seconds) * 16000 / FRAME) :]
    loud = max(golden) / 4
    # The ends of the recording may be outside of what was recorded.
    starts = range(len(golden) // 8, len(golden) * 7 // 8 - PIECE, PIECE)
    pieces = [slice(start, start + PIECE) for start in starts if max(golden[start : start + PIECE]) > loud]
    found = 0
    for piece in pieces:
        places = [out[at : at + PIECE] for at in range(len(out) - PIECE)]
        place = max(places, key=lambda place: correlation(place, golden[piece]), default=[0] * PIECE)
        is_found = correlation(place, golden[piece]) > 0.9
        found += is_found and distance(place, golden[piece]) < distance(place, noisy[piece])
    print(f"    {found} of {len(pieces)} pieces of {PIECE * 10} ms are in it, without the noise")
    return found > len(pieces) / 2


def cut(source, target, count):
    with wave.open(source) as wav:
        parameters, data = wav.getparams(), wav.readframes(int(count))
    with wave.open(target, "wb") as wav:
        wav.setparams(parameters)
        wav.writeframes(data)
    return True


def main():
    return {"same": same, "alike": alike, "cut": cut}[sys.argv[1]](*sys.argv[2:])


sys.exit(not main())
