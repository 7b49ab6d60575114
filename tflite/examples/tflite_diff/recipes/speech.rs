//! Custom operators of speech that the interpreter knows.

use nnburst_tflite::TensorKind::Float32;
use nnburst_tflite::testing::flex_map;

use crate::net::{Net, ValueRange};

pub(super) fn spectrogram(net: &mut Net, _: &'static str) {
    net.kind(&[Float32]);
    net.span = ValueRange(-1.0, 1.0);
    let window = net.random.within(2, 500);
    let stride = net.random.within(1, 300);
    let samples = window + net.random.within(0, 900);
    let input = net.plain_input(Float32, &[samples, 1]);
    let frequencies = i32::try_from(window.unsigned_abs().next_power_of_two() / 2).unwrap_or(1) + 1;
    let rows = (samples - window) / stride + 1;
    let output = net.file.tensor("out", Float32, &[1, rows, frequencies]);
    let squared = net.random.below(2);
    let options =
        flex_map(&[("window_size", window), ("stride", stride), ("magnitude_squared", squared)]);
    net.file.custom_operator("AudioSpectrogram", &[input], &[output], &options);
    net.file.outputs(&[output]);
}

pub(super) fn mfcc(net: &mut Net, _: &'static str) {
    net.kind(&[Float32]);
    net.span = ValueRange(0.0, 100.0);
    let bins = net.random.pick(&[33, 129, 257, 513]);
    let rows = net.random.within(1, 5);
    let input = net.plain_input(Float32, &[1, rows, bins]);
    let rate = net.random.pick(&[8000, 16000, 44100]);
    let rate = net.file.int_constant("rate", &[1], &[rate]);
    let bands = net.random.within(1, 60);
    let coefficients = net.random.within(1, bands);
    let low = net.random.within(0, 300);
    let output = net.file.tensor("out", Float32, &[1, rows, coefficients]);
    let options = flex_map(&[
        ("upper_frequency_limit", low + net.random.within(100, 8000)),
        ("lower_frequency_limit", low),
        ("filterbank_channel_count", bands),
        ("dct_coefficient_count", coefficients),
    ]);
    net.file.custom_operator("Mfcc", &[input, rate], &[output], &options);
    net.file.outputs(&[output]);
}
