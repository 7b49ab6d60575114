//! Networks that quantise floats on the fly: the order of sums before, and the rounding of ties.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/run.rs"]
mod once;
#[path = "common/plan.rs"]
mod plan;

use nnburst_executor::{CompileOptions, Isa, Plan};
use nnburst_tflite::testing::{Fields, TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, Route, TensorKind};

const F32: TensorKind = TensorKind::Float32;

/// An input that isn't there.
const NONE: i32 = -1;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn import(file: &TfliteFile, widened_hybrid: bool) -> Imported {
    let options = ImportOptions { extension: true, widened_hybrid, ..ImportOptions::default() };
    Imported::from_bytes_with(&file.build(), options).unwrap()
}

fn run(imported: &Imported, input: &[f32]) -> Vec<Vec<f32>> {
    let plan = plan::compile(imported).unwrap();
    let bytes: Vec<u8> = input.iter().flat_map(|value| value.to_le_bytes()).collect();
    let (outputs, _) = once::run(&mut plan.session(), imported, &[&bytes], &[]);
    outputs.iter().map(|bytes| floats(bytes)).collect()
}

/// Options of a convolution: SAME padding, strides of 1, no activation.
fn plain(is_depthwise: bool) -> Fields {
    let mut fields = vec![(0, Value::I8(0)), (1, Value::I32(1)), (2, Value::I32(1))];
    if is_depthwise {
        fields.push((3, Value::I32(1)));
    }
    fields
}

/// Values whose sums depend on their order.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let small = i16::try_from(state >> 18).unwrap();
        (f32::from(small) - 8191.5) / 1023.7
    };
    (0..count).map(|_| next()).collect()
}

const SIDE: usize = 5;
const DEPTH: usize = 3;
const UNITS: usize = 18;

#[test]
fn float_layers_sum_in_the_order_of_the_reference_kernels() {
    let (weights, bias) = (values(UNITS * 9 * DEPTH, 1), values(UNITS, 2));
    let (taps, image) = (values(9 * UNITS, 3), values(SIDE * SIDE * DEPTH, 4));
    let mut file = TfliteFile::new();
    let shape = |channels: i32| [1, 5, 5, channels];
    let x = file.input("x", F32, &shape(3));
    let filter = file.float_constant("filter", &[18, 3, 3, 3], &weights);
    let offset = file.float_constant("bias", &[18], &bias);
    let dense = file.tensor("dense", F32, &shape(18));
    file.operator_with("CONV_2D", &[x, filter, offset], &[dense], 1, plain(false));
    let filter = file.float_constant("taps", &[1, 3, 3, 18], &taps);
    let each = file.tensor("each", F32, &shape(18));
    file.operator_with("DEPTHWISE_CONV_2D", &[dense, filter, -1], &[each], 2, plain(true));
    let packed = file.constant("packed", TensorKind::Int8, &[2, 1, 1, 18], &[3; 36]);
    file.quantize(packed, &[0.5], &[0], 0);
    let mixed = file.tensor("mixed", F32, &shape(2));
    file.operator_with("CONV_2D", &[each, packed, -1], &[mixed], 1, plain(false));
    file.outputs(&[dense, each, mixed]);

    let imported = import(&file, false);
    assert!(imported.routes.iter().all(|route| matches!(route, Route::Extension(_))));
    let outputs = run(&imported, &image);
    // As the kernels have it: the taps row by row, channel by channel, each product rounded.
    let covered = |at: usize, tap: usize| (at + tap).checked_sub(1).filter(|&at| at < SIDE);
    for pixel in 0..SIDE * SIDE {
        let (y, x) = (pixel / SIDE, pixel % SIDE);
        for unit in 0..UNITS {
            let (mut dense, mut each) = (0f32, 0f32);
            for tap in 0..9 {
                let places = (covered(y, tap / 3), covered(x, tap % 3));
                let (Some(y), Some(x)) = places else { continue };
                for channel in 0..DEPTH {
                    dense += image[(y * SIDE + x) * DEPTH + channel]
                        * weights[(unit * 9 + tap) * DEPTH + channel];
                }
                each += outputs[0][(y * SIDE + x) * UNITS + unit] * taps[tap * UNITS + unit];
            }
            let at = pixel * UNITS + unit;
            assert_eq!(outputs[0][at].to_bits(), (dense + bias[unit]).to_bits(), "{at}");
            assert_eq!(outputs[1][at].to_bits(), each.to_bits(), "{at}");
        }
    }
    let widened = import(&file, true);
    assert!(widened.routes.iter().all(|route| *route == Route::Nnapi));
    let wide = run(&widened, &image);
    let apart = wide[0].iter().zip(&outputs[0]).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) < 1e-4);
}

/// The interpreter's results for a depthwise layer that leaves what is quantised as it is.
#[test]
fn ties_go_away_from_zero_before_the_zero_point_is_added() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 1, 8, 2]);
    let ones = file.constant("ones", TensorKind::Int8, &[1, 1, 1, 2], &[1, 1]);
    file.quantize(ones, &[1.0, 1.0], &[0, 0], 3);
    let y = file.tensor("y", F32, &[1, 1, 8, 2]);
    file.operator_with("DEPTHWISE_CONV_2D", &[x, ones, -1], &[y], 2, plain(true));
    file.outputs(&[y]);
    // -100 to 155 in 255 steps of 1.
    let line = [-100.0, 155.0, -99.5, -50.5, -0.5, 0.5, 1.5, 100.5f32];
    let input: Vec<f32> = line.iter().flat_map(|&value| [value, value]).collect();
    let outputs = run(&import(&file, false), &input);
    let want = [-100.0, 155.0, -100.0, -51.0, -1.0, 1.0, 2.0, 101.0f32];
    assert_eq!(outputs[0], want.iter().flat_map(|&value| [value, value]).collect::<Vec<_>>());
}

/// Neither is there an NNAPI operation of groups that are dilated, nor do sums of many groups go
/// through products of matrices.
#[test]
fn groups_of_channels_are_dilated_in_the_order_of_the_reference_kernel() {
    for (groups, own, depth) in [(2, 3, 4), (70, 1, 2)] {
        let (channels, units) = (groups * depth, groups * own);
        let (weights, bias) = (values(units * 9 * depth, 5), values(units, 6));
        let image = values(SIDE * SIDE * channels, 7);
        let of = |extents: [usize; 4]| extents.map(|extent| i32::try_from(extent).unwrap());
        let mut file = TfliteFile::new();
        let x = file.input("x", F32, &of([1, SIDE, SIDE, channels]));
        let filter = file.float_constant("filter", &of([units, 3, 3, depth]), &weights);
        let offset = file.float_constant("bias", &of([units, 1, 1, 1])[..1], &bias);
        let y = file.tensor("y", F32, &of([1, SIDE, SIDE, units]));
        let mut fields = plain(false);
        fields.extend([(4, Value::I32(2)), (5, Value::I32(2))]);
        file.operator_with("CONV_2D", &[x, filter, offset], &[y], 1, fields);
        file.outputs(&[y]);

        let imported = import(&file, false);
        assert!(matches!(imported.routes[..], [Route::Extension(_)]));
        let outputs = run(&imported, &image);
        let covered = |at: usize, tap: usize| (at + 2 * tap).checked_sub(2).filter(|&at| at < SIDE);
        for (at, value) in outputs[0].iter().enumerate() {
            let (pixel, unit) = (at / units, at % units);
            let mut sum = 0f32;
            for tap in 0..9 {
                let places = (covered(pixel / SIDE, tap / 3), covered(pixel % SIDE, tap % 3));
                let (Some(y), Some(x)) = places else { continue };
                let first = (y * SIDE + x) * channels + unit / own * depth;
                for channel in 0..depth {
                    sum += image[first + channel] * weights[(unit * 9 + tap) * depth + channel];
                }
            }
            assert_eq!(value.to_bits(), (sum + bias[unit]).to_bits(), "{groups}: {at}");
        }
    }
}

/// With a zero point, as for a scale per channel: in steps of 1 from 0 to 255 here.
#[test]
fn groups_of_channels_are_quantised_on_the_fly() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 1, 3, 4]);
    // Each of two filters sees two channels.
    let filter = file.constant("filter", TensorKind::Int8, &[2, 1, 1, 2], &[1, 2, 3, 0xFC]);
    file.quantize(filter, &[0.5, 0.5], &[0, 0], 0);
    let bias = file.float_constant("bias", &[2], &[1.0, -1.0]);
    let y = file.tensor("y", F32, &[1, 1, 3, 2]);
    file.operator_with("CONV_2D", &[x, filter, bias], &[y], 1, plain(false));
    file.outputs(&[y]);
    let image = [0.0, 255.0, 10.0, 0.4, 1.4, 20.0, 3.0, 2.0, 0.3, 0.2, 0.1, 100.6];
    let outputs = run(&import(&file, false), &image);
    assert_eq!(outputs[0], [256.0, 14.0, 21.5, -0.5, 1.0, -203.0]);
    let widened = run(&import(&file, true), &image);
    assert!((widened[0][1] - 13.2).abs() < 1e-4);
}

/// The layers that converters make of depthwise ones: a filter for each channel.
#[test]
fn channels_are_groups_of_their_own() {
    const CHANNELS: usize = 20;
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 1, 3, 20]);
    let weights: Vec<i8> = (0..40).map(|at| at % 31 - 15).collect();
    let bytes: Vec<u8> = weights.iter().map(|weight| weight.cast_unsigned()).collect();
    let filter = file.constant("filter", TensorKind::Int8, &[20, 1, 2, 1], &bytes);
    file.quantize(filter, &[0.5; CHANNELS], &[0; CHANNELS], 0);
    let bias: Vec<f32> = (0..20u8).map(f32::from).collect();
    let of_bias = file.float_constant("bias", &[20], &bias);
    let y = file.tensor("y", F32, &[1, 1, 3, 20]);
    file.operator_with("CONV_2D", &[x, filter, of_bias], &[y], 1, plain(false));
    file.outputs(&[y]);
    // Integers from 0 to 255, which are those that it computes with.
    let image: Vec<f32> = (0..3 * CHANNELS).map(|at| (at * 85 % 256) as f32).collect();
    let outputs = run(&import(&file, false), &image);
    for (at, &output) in outputs[0].iter().enumerate() {
        let (pixel, channel) = (at / CHANNELS, at % CHANNELS);
        let products = (0..2).map(|tap| {
            let value = image.get((pixel + tap) * CHANNELS + channel).copied().unwrap_or(0.0);
            value * f32::from(weights[2 * channel + tap])
        });
        assert_eq!(output, products.sum::<f32>() * 0.5 + bias[channel], "{at}");
    }
}

/// Rows that fill tiles, and don't, and blocks, and don't; units that are shared between threads;
/// weights for which threads share one row; and weights of 8 bits and of 4.
#[test]
fn dense_layers_of_any_rows_give_the_same_in_every_form_and_by_two_threads() {
    for ([rows, depth, units], bits) in [
        ([1, 36, 300], 8),
        ([2, 7, 5], 8),
        ([7, 36, 300], 8),
        ([8, 64, 130], 8),
        ([67, 40, 520], 8),
        ([67, 1028, 520], 8),
        ([3, 2052, 520], 8),
        ([1, 2052, 520], 8),
        ([1, 264, 300], 4),
        ([1, 2056, 517], 4),
        ([2, 264, 300], 4),
    ] {
        let weight = |at: usize| {
            let [byte, ..] = (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes();
            byte.cast_signed() >> (8 - bits)
        };
        let weights: Vec<i8> = (0..units * depth).map(weight).collect();
        // The greatest of each row is 127 steps of 1: nothing is lost when it is quantised.
        let x: Vec<i8> = (0..rows * depth)
            .map(|at| if at % depth == 2 { 127 } else { i8::try_from(at * 31 % 255).unwrap_or(-9) })
            .collect();
        let of = |extents: [usize; 2]| extents.map(|extent| i32::try_from(extent).unwrap());
        let packed: Vec<u8> = weights.iter().map(|weight| weight.cast_unsigned()).collect();
        let mut file = TfliteFile::new();
        let real = file.input("real", F32, &of([rows, depth]));
        let byte = file.input("byte", TensorKind::Int8, &of([rows, depth]));
        file.quantize(byte, &[1.0], &[3], 0);
        let filter = file.constant("weights", TensorKind::Int8, &of([units, depth]), &packed);
        file.quantize(filter, &[0.5], &[0], 0);
        let reals = file.tensor("reals", F32, &of([rows, units]));
        file.operator("FULLY_CONNECTED", &[real, filter, NONE], &[reals]);
        let bytes = file.tensor("bytes", TensorKind::Int8, &of([rows, units]));
        file.quantize(bytes, &[700.0], &[-5], 0);
        file.operator("FULLY_CONNECTED", &[byte, filter, NONE], &[bytes]);
        let wide: Vec<f32> = weights.iter().map(|&weight| f32::from(weight) / 256.0).collect();
        let filter = file.float_constant("wide", &of([units, depth]), &wide);
        let widened = file.tensor("widened", F32, &of([rows, units]));
        file.operator("FULLY_CONNECTED", &[real, filter, NONE], &[widened]);
        file.outputs(&[reals, bytes, widened]);
        let imported = import(&file, false);

        let reals: Vec<u8> = x.iter().flat_map(|&x| f32::from(x).to_le_bytes()).collect();
        let bytes: Vec<u8> = x.iter().map(|x| x.cast_unsigned()).collect();
        let sums = |zero_point: i32| {
            let sum = move |row: &[i8], weights: &[i8]| {
                let products = row.iter().zip(weights);
                products.map(|(&x, &w)| (i32::from(x) - zero_point) * i32::from(w)).sum::<i32>()
            };
            let rows = x.chunks_exact(depth);
            rows.flat_map(|row| weights.chunks_exact(depth).map(move |of| sum(row, of)))
                .collect::<Vec<_>>()
        };
        #[expect(clippy::cast_precision_loss, reason = "as the layer converts sums")]
        let of_reals: Vec<f32> = sums(0).into_iter().map(|sum| sum as f32 * 0.5).collect();
        #[expect(clippy::cast_possible_truncation, reason = "within the bytes")]
        let rounded = |sum: i32| (f64::from(sum) * 0.5 / 700.0).round() as i32;
        let of_bytes: Vec<u8> = sums(3)
            .into_iter()
            .map(|sum| (rounded(sum) - 5).clamp(-128, 127).to_le_bytes()[0])
            .collect();
        for isa in Isa::all() {
            let mut alone = None;
            for threads in [1, 2] {
                let options = CompileOptions { isa: Some(isa), threads, ..plan::options() };
                let plan = Plan::compile(&imported.model, &options).unwrap();
                let inputs: [&[u8]; 2] = [&reals, &bytes];
                let (outputs, _) = once::run(&mut plan.session(), &imported, &inputs, &[]);
                let what = format!("{rows} x {depth} x {units}, {isa:?}, {threads}");
                assert!(floats(&outputs[0]) == of_reals, "floats of {what}");
                assert!(outputs[1] == of_bytes, "bytes of {what}");
                // Of floats the order of sums depends on the form alone.
                let widened = floats(&outputs[2]);
                let near = |(real, widened): (&f32, &f32)| (real / 128.0 - widened).abs() < 0.05;
                assert!(of_reals.iter().zip(&widened).all(near), "wide weights of {what}");
                assert!(*alone.get_or_insert_with(|| widened.clone()) == widened, "{what}");
            }
        }
    }
}

/// A transposed convolution of one axis: the filter's extent, the stride, and the result's extent.
type TransposedAxis = [usize; 3];

/// Each value of the input adds its products where they belong; of integers, so that order makes no
/// difference.
#[test]
fn transposed_convolutions_multiply_integers() {
    let of_axis = |[filter, stride, extent]: TransposedAxis, is_same: bool| match is_same {
        true => {
            let count = extent.div_ceil(stride);
            (count, ((count - 1) * stride + filter).saturating_sub(extent) / 2)
        }
        false => ((extent - filter) / stride + 1, 0),
    };
    // The last is of more outputs than a tile may have.
    let cases: [(TransposedAxis, TransposedAxis, usize, usize); 9] = [
        ([3, 2, 8], [3, 2, 10], 3, 5),
        ([2, 2, 6], [2, 2, 9], 16, 17),
        ([4, 2, 8], [4, 2, 8], 8, 1),
        ([3, 1, 5], [2, 1, 7], 5, 33),
        ([1, 3, 7], [2, 3, 8], 4, 3),
        ([5, 2, 11], [3, 3, 11], 2, 6),
        ([3, 2, 17], [3, 2, 33], 64, 40),
        ([7, 4, 13], [6, 4, 15], 3, 2),
        ([3, 40, 41], [2, 40, 42], 3, 2),
    ];
    for (down, across, depth, outputs) in cases {
        for (is_same, has_bias, activation) in
            [(true, true, 0), (false, false, 1), (false, true, 1)]
        {
            let (rows, top) = of_axis(down, is_same);
            let (columns, left) = of_axis(across, is_same);
            let of = |extents: [usize; 4]| extents.map(|extent| i32::try_from(extent).unwrap());
            let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0];
            let image = rows * columns * depth;
            // From 0 to 255: steps of 1, and nothing is lost when it is quantised.
            let x = (0..2 * image).map(|at| match at % image {
                0 => 255,
                1 => 0,
                _ => byte(at),
            });
            let x: Vec<u8> = x.collect();
            let taps = down[0] * across[0];
            let weights: Vec<u8> = (0..outputs * taps * depth).map(|at| byte(at + 7)).collect();
            let scales: Vec<f32> = [0.5, 0.25, 2.0].into_iter().cycle().take(outputs).collect();
            let bias: Vec<f32> =
                [3.0, -1000.5, 7.25, 0.0].into_iter().cycle().take(outputs).collect();

            let mut file = TfliteFile::new();
            let shape = of([2, down[2], across[2], outputs]);
            let asked = file.int_constant("shape", &[4], &shape);
            let extents = of([outputs, down[0], across[0], depth]);
            let filter = file.constant("filter", TensorKind::Int8, &extents, &weights);
            file.quantize(filter, &scales, &vec![0; outputs], 0);
            let input = file.input("x", F32, &of([2, rows, columns, depth]));
            let mut inputs = vec![asked, filter, input];
            let channels = [i32::try_from(outputs).unwrap()];
            inputs.extend(has_bias.then(|| file.float_constant("bias", &channels, &bias)));
            let y = file.tensor("y", F32, &shape);
            let stride = |axis: TransposedAxis| Value::I32(i32::try_from(axis[1]).unwrap());
            let padding = Value::I8(i8::from(!is_same));
            let fields = vec![
                (0, padding),
                (1, stride(across)),
                (2, stride(down)),
                (3, Value::I8(activation)),
            ];
            file.operator_with("TRANSPOSE_CONV", &inputs, &[y], 49, fields);
            file.outputs(&[y]);
            let imported = import(&file, false);
            assert!(matches!(imported.routes[..], [Route::Extension(_)]));

            let mut sums = vec![0i32; 2 * down[2] * across[2] * outputs];
            for (pixel, values) in x.chunks_exact(depth).enumerate() {
                let (batch, place) = (pixel / (rows * columns), pixel % (rows * columns));
                for tap in 0..taps {
                    let row = (place / columns * down[1] + tap / across[0]).wrapping_sub(top);
                    let column = (place % columns * across[1] + tap % across[0]).wrapping_sub(left);
                    if row >= down[2] || column >= across[2] {
                        continue;
                    }
                    for output in 0..outputs {
                        let own = &weights[(output * taps + tap) * depth..][..depth];
                        let products = values
                            .iter()
                            .zip(own)
                            .map(|(&x, &w)| i32::from(x) * i32::from(w.cast_signed()));
                        let at = ((batch * down[2] + row) * across[2] + column) * outputs + output;
                        sums[at] += products.sum::<i32>();
                    }
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "as the layer converts sums")]
            let real = |(at, &sum): (usize, &i32)| {
                let bias = if has_bias { bias[at % outputs] } else { 0.0 };
                let real = sum as f32 * scales[at % outputs] + bias;
                if activation == 1 { real.max(0.0) } else { real }
            };
            let want: Vec<f32> = sums.iter().enumerate().map(real).collect();
            let reals: Vec<u8> = x.iter().flat_map(|&x| f32::from(x).to_le_bytes()).collect();
            for isa in Isa::all() {
                let options = CompileOptions { isa: Some(isa), ..plan::options() };
                let plan = Plan::compile(&imported.model, &options).unwrap();
                let (outputs, _) = once::run(&mut plan.session(), &imported, &[&reals], &[]);
                let got = floats(&outputs[0]);
                assert!(got == want, "{down:?} {across:?} {is_same} {has_bias} {isa:?}");
            }
        }
    }
}
