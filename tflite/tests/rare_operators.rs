//! Files of one operator each that NNAPI has nothing for: results against the plain definition, and
//! sizes at run time that nothing can be computed with.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/bytes.rs"]
mod bytes;
#[path = "common/file.rs"]
mod file;
#[path = "common/plan.rs"]
mod plan;

use bytes::{bytes_of, bytes_of_ints, floats};
use nnburst_tflite::testing::{Fields, TfliteFile, Value};
use nnburst_tflite::{Route, TensorKind};

const F32: TensorKind = TensorKind::Float32;
const I32: TensorKind = TensorKind::Int32;
const I8: TensorKind = TensorKind::Int8;

fn ints(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect()
}

/// The outputs of a file, or why it does not run; results may be as long as `room`.
fn run_within(file: &TfliteFile, inputs: &[Vec<u8>], room: usize) -> Result<Vec<Vec<u8>>, String> {
    let imported = file::import(file)?;
    assert!(imported.routes.iter().all(|route| matches!(route, Route::Extension(_))));
    file::outputs(&imported, inputs, room)
}

fn run(file: &TfliteFile, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    run_within(file, inputs, 0).unwrap()
}

/// Numbers between -4 and 4.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f32::from(u16::try_from(state >> 16).unwrap()) - 32_767.5) / 8192.0
    };
    (0..count).map(|_| next()).collect()
}

/// Windows along one axis, as TensorFlow counts them.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    filter: usize,
    stride: usize,
    dilation: usize,
    output: usize,
    before: usize,
}

impl Axis {
    fn new(input: usize, filter: usize, stride: usize, dilation: usize, is_same: bool) -> Self {
        let reach = (filter - 1) * dilation + 1;
        let output = if is_same { input.div_ceil(stride) } else { (input - reach) / stride + 1 };
        let missing = ((output - 1) * stride + reach).saturating_sub(input);
        Self { input, filter, stride, dilation, output, before: missing / 2 }
    }

    /// Where a tap of a window is in the input.
    fn place(self, window: usize, tap: usize) -> Option<usize> {
        let at = (window * self.stride + tap * self.dilation).checked_sub(self.before)?;
        (at < self.input).then_some(at)
    }
}

/// All places in three extents, the last one moving first.
fn places(extents: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [a, b, c] = extents;
    (0..a * b * c).map(move |at| [at / c / b, at / c % b, at % c])
}

fn flat(place: [usize; 3], extents: [usize; 3]) -> usize {
    (place[0] * extents[1] + place[1]) * extents[2] + place[2]
}

struct VolumeCase {
    axes: [Axis; 3],
    is_same: bool,
    channels: usize,
    outputs: usize,
}

impl VolumeCase {
    fn fields(&self, activation: i8) -> Fields {
        let int = |value: usize| Value::I32(i32::try_from(value).unwrap());
        let [z, y, x] = &self.axes;
        vec![
            (0, Value::I8(i8::from(!self.is_same))),
            (1, int(z.stride)),
            (2, int(x.stride)),
            (3, int(y.stride)),
            (4, Value::I8(activation)),
            (5, int(z.dilation)),
            (6, int(x.dilation)),
            (7, int(y.dilation)),
        ]
    }

    /// The pairs of window and input place that a tap connects, in the windows' order.
    fn connects(&self, window: [usize; 3], tap: [usize; 3]) -> Option<[usize; 3]> {
        let place = |at: usize| self.axes[at].place(window[at], tap[at]);
        Some([place(0)?, place(1)?, place(2)?])
    }
}

fn volume_cases() -> Vec<VolumeCase> {
    let case = |is_same: bool, strides: [usize; 3], dilations: [usize; 3]| {
        let [inputs, filters] = [[4, 5, 6], [2, 3, 2]];
        let axis =
            |at: usize| Axis::new(inputs[at], filters[at], strides[at], dilations[at], is_same);
        VolumeCase { axes: [axis(0), axis(1), axis(2)], is_same, channels: 3, outputs: 5 }
    };
    vec![
        case(true, [1, 1, 1], [1, 1, 1]),
        case(true, [1, 2, 3], [1, 1, 1]),
        case(false, [2, 1, 2], [1, 1, 1]),
        case(false, [1, 1, 1], [3, 2, 4]),
        case(true, [1, 1, 1], [2, 1, 3]),
    ]
}

fn extents(first: usize, middle: [usize; 3], last: &[usize]) -> Vec<i32> {
    let all = [&[first], &middle[..], last].concat();
    all.into_iter().map(|extent| i32::try_from(extent).unwrap()).collect()
}

#[test]
fn volumes_are_convolved_in_the_order_of_the_reference_kernel() {
    for case in volume_cases() {
        let [input, filter, output] = [
            case.axes.map(|axis| axis.input),
            case.axes.map(|axis| axis.filter),
            case.axes.map(|axis| axis.output),
        ];
        let count = |extents: [usize; 3]| extents.iter().product::<usize>();
        let (channels, outputs) = (case.channels, case.outputs);
        let volume = values(2 * count(input) * channels, 1);
        let weights = values(count(filter) * channels * outputs, 2);
        let bias = values(outputs, 3);
        let mut file = TfliteFile::new();
        let x = file.input("x", F32, &extents(2, input, &[channels]));
        let filter_dims = extents(filter[0], [filter[1], filter[2], channels], &[outputs]);
        let w = file.float_constant("w", &filter_dims, &weights);
        let b = file.float_constant("b", &[i32::try_from(outputs).unwrap()], &bias);
        let y = file.tensor("y", F32, &extents(2, output, &[outputs]));
        file.operator_with("CONV_3D", &[x, w, b], &[y], 106, case.fields(1));
        file.outputs(&[y]);
        let found = floats(&run(&file, &[bytes_of(&volume)])[0]);
        let mut at = 0;
        for batch in 0..2 {
            for window in places(output) {
                for unit in 0..outputs {
                    let mut sum = 0f32;
                    for tap in places(filter) {
                        let Some(place) = case.connects(window, tap) else { continue };
                        let from = (batch * count(input) + flat(place, input)) * channels;
                        for channel in 0..channels {
                            let row = flat(tap, filter) * channels + channel;
                            sum += volume[from + channel] * weights[row * outputs + unit];
                        }
                    }
                    let want = (sum + bias[unit]).max(0.0);
                    assert_eq!(found[at].to_bits(), want.to_bits(), "{at}: {}", found[at]);
                    at += 1;
                }
            }
        }
        assert_eq!(at, found.len());
    }
}

#[test]
fn volumes_are_spread_in_the_order_of_the_reference_kernel() {
    for case in volume_cases() {
        // From the windows' places to the volume that they are over.
        let [large, filter, small] = [
            case.axes.map(|axis| axis.input),
            case.axes.map(|axis| axis.filter),
            case.axes.map(|axis| axis.output),
        ];
        let count = |extents: [usize; 3]| extents.iter().product::<usize>();
        let (channels, outputs) = (case.channels, case.outputs);
        let volume = values(2 * count(small) * channels, 4);
        let weights = values(count(filter) * channels * outputs, 5);
        let mut file = TfliteFile::new();
        let wanted = extents(2, large, &[outputs]);
        let shape = file.int_constant("shape", &[5], &wanted);
        let filter_dims = extents(filter[0], [filter[1], filter[2], outputs], &[channels]);
        let w = file.float_constant("w", &filter_dims, &weights);
        let x = file.input("x", F32, &extents(2, small, &[channels]));
        let y = file.tensor("y", F32, &wanted);
        file.operator_with("CONV_3D_TRANSPOSE", &[shape, w, x], &[y], 106, case.fields(0));
        file.outputs(&[y]);
        let found = floats(&run(&file, &[bytes_of(&volume)])[0]);
        let mut sums = vec![0f32; 2 * count(large) * outputs];
        for batch in 0..2 {
            for window in places(small) {
                for channel in 0..channels {
                    let from = (batch * count(small) + flat(window, small)) * channels + channel;
                    for tap in places(filter) {
                        let Some(place) = case.connects(window, tap) else { continue };
                        let to = (batch * count(large) + flat(place, large)) * outputs;
                        for unit in 0..outputs {
                            let row = flat(tap, filter) * outputs + unit;
                            sums[to + unit] += volume[from] * weights[row * channels + channel];
                        }
                    }
                }
            }
        }
        let same = found.iter().zip(&sums).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same && found.len() == sums.len());
    }
}

/// Says that the extents of a result are known at run time alone.
fn open(file: &mut TfliteFile, tensor: i32, extents: &[i32]) {
    file.tensor_fields(tensor, vec![(7, Value::ints(extents))]);
}

/// A file of RFFT2D with constant sizes, or sizes that come with each run.
fn transform(shape: &[i32], sizes: Option<&[i32]>, result: &[i32]) -> TfliteFile {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, shape);
    let points = match sizes {
        Some(sizes) => file.int_constant("sizes", &[2], sizes),
        None => file.input("sizes", I32, &[2]),
    };
    let y = file.tensor("y", TensorKind::Complex64, result);
    if sizes.is_none() {
        open(&mut file, y, &[-1, -1]);
    }
    file.operator("RFFT2D", &[x, points], &[y]);
    file.outputs(&[y]);
    file
}

#[test]
fn planes_are_transformed_cut_or_padded() {
    // Rows are cut, columns padded.
    let file = transform(&[2, 6, 3], Some(&[4, 8]), &[2, 4, 5]);
    let planes = values(2 * 6 * 3, 6);
    let found = floats(&run(&file, &[bytes_of(&planes)])[0]);
    for (at, found) in found.as_chunks::<2>().0.iter().enumerate() {
        let (plane, v, u) = (at / 20, at / 5 % 4, at % 5);
        let (mut real, mut imaginary) = (0f64, 0f64);
        for [_, y, x] in places([1, 4, 3]) {
            let value = f64::from(planes[(plane * 6 + y) * 3 + x]);
            let turns = f64::from(u32::try_from(v * y).unwrap()) / 4.0
                + f64::from(u32::try_from(u * x).unwrap()) / 8.0;
            let angle = -2.0 * std::f64::consts::PI * turns;
            real += value * angle.cos();
            imaginary += value * angle.sin();
        }
        let apart = (f64::from(found[0]) - real).hypot(f64::from(found[1]) - imaginary);
        assert!(apart < 1e-5, "{at}: {found:?} for {real} {imaginary}");
    }
    assert_eq!(found.len(), 2 * 2 * 4 * 5);
}

#[test]
fn sizes_that_are_no_powers_of_two_are_refused() {
    let file = transform(&[2, 2], None, &[1, 1]);
    let plane = bytes_of(&[1.0; 4]);
    let run = |sizes: [i32; 2]| run_within(&file, &[plane.clone(), bytes_of_ints(&sizes)], 1 << 12);
    let found = floats(&run([2, 2]).unwrap()[0]);
    assert_eq!(found[..2], [4.0, 0.0]);
    for sizes in [[0, 2], [2, -2], [3, 2], [2, 6], [i32::MIN, 2], [1 << 30, 2], [1 << 24, 1 << 24]]
    {
        assert!(run(sizes).is_err(), "{sizes:?}");
    }
}

fn seeds(seed: i64, stream: i64) -> Fields {
    vec![(0, Value::I64(seed)), (1, Value::I64(stream))]
}

fn drawn(name: &str, count: i32, fields: Fields) -> Vec<f32> {
    let mut file = TfliteFile::new();
    let shape = file.int_constant("shape", &[1], &[count]);
    let y = file.tensor("y", F32, &[count]);
    file.operator_with(name, &[shape], &[y], 114, fields);
    file.outputs(&[y]);
    floats(&run(&file, &[])[0])
}

/// Philox 4x32-10 as its paper has it, block by block.
fn philox(seed: u64, stream: u64, block: u64) -> [u32; 4] {
    let low = |x: u64| u32::try_from(x & 0xffff_ffff).unwrap();
    let high = |x: u64| u32::try_from(x >> 32).unwrap();
    let mut counter = [low(block), high(block), low(stream), high(stream)];
    let mut key = [low(seed), high(seed)];
    for _ in 0..10 {
        let first = 0xD251_1F53 * u64::from(counter[0]);
        let second = 0xCD9E_8D57 * u64::from(counter[2]);
        counter = [
            high(second) ^ counter[1] ^ key[0],
            low(second),
            high(first) ^ counter[3] ^ key[1],
            low(first),
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

fn words(seed: u64, stream: u64) -> impl Iterator<Item = u32> {
    (0..).flat_map(move |block| philox(seed, stream, block))
}

/// A float in `[0, 1)` whose fraction is the low 23 bits.
fn unit(word: u32) -> f32 {
    f32::from_bits(0x3f80_0000 | word & 0x7f_ffff) - 1.0
}

#[test]
fn random_numbers_are_those_of_their_seeds() {
    // Of seeds of 64 bits the interpreter takes the low 32.
    let [seed, stream] = [0x1234_5678i64, -7];
    let found = drawn("RANDOM_UNIFORM", 11, seeds(seed + (5 << 33), stream));
    let source = || words(seed.cast_unsigned(), stream.cast_unsigned());
    let want: Vec<f32> = source().map(unit).take(11).collect();
    assert_eq!(found, want);
    let found = drawn("RANDOM_STANDARD_NORMAL", 7, seeds(seed, stream));
    let units: Vec<f32> = source().map(unit).take(8).collect();
    for (at, &found) in found.iter().enumerate() {
        let (radius, angle) = (f64::from(units[at & !1]), f64::from(units[at | 1]));
        let length = (-2.0 * radius.ln()).sqrt();
        let angle = 2.0 * std::f64::consts::PI * angle;
        let want = length * if at % 2 == 0 { angle.sin() } else { angle.cos() };
        assert!((f64::from(found) - want).abs() < 1e-5, "{at}: {found} for {want}");
    }
    let others = || drawn("RANDOM_UNIFORM", 4, seeds(0, 0));
    assert_ne!(others(), others(), "without seeds");
}

#[test]
fn shapes_of_random_numbers_that_are_none_are_refused() {
    let mut file = TfliteFile::new();
    let shape = file.input("shape", I32, &[2]);
    let y = file.tensor("y", F32, &[1, 1]);
    open(&mut file, y, &[-1, -1]);
    file.operator_with("RANDOM_UNIFORM", &[shape], &[y], 114, seeds(1, 2));
    file.outputs(&[y]);
    let run = |shape: [i32; 2]| run_within(&file, &[bytes_of_ints(&shape)], 64);
    assert!(run([2, 3]).is_ok());
    for shape in [[-1, 2], [1 << 16, 1 << 16], [i32::MAX, 1], [1 << 12, 1 << 12]] {
        assert!(run(shape).is_err(), "{shape:?}");
    }
}

#[test]
fn classes_are_drawn_by_their_probabilities() {
    let logits = [0.5, -1.0, 2.0, f32::NEG_INFINITY, 0.0, 1.0, 1.0, 1.0];
    let make = |samples: Option<i32>| {
        let mut file = TfliteFile::new();
        let x = file.input("x", F32, &[2, 4]);
        let count = match samples {
            Some(samples) => file.int_constant("samples", &[], &[samples]),
            None => file.input("samples", I32, &[]),
        };
        let y = file.tensor("y", TensorKind::Int64, &[2, samples.unwrap_or(5)]);
        if samples.is_none() {
            open(&mut file, y, &[2, -1]);
        }
        file.operator_with("MULTINOMIAL", &[x, count], &[y], 114, seeds(11, 3));
        file.outputs(&[y]);
        file
    };
    let found = run(&make(Some(5)), &[bytes_of(&logits)]);
    let found = found[0].as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes));
    let mut words = words(11, 3);
    let mut want = Vec::new();
    for row in logits.as_chunks::<4>().0 {
        let most = row.iter().copied().fold(f32::MIN, f32::max);
        let powers = row.map(|x| (f64::from(x) - f64::from(most)).exp());
        let total = ((powers[0] + powers[1]) + powers[2]) + powers[3];
        for _ in 0..5 {
            let (high, low) = (words.next().unwrap(), words.next().unwrap());
            let bits = 0x3ff0_0000_0000_0000 | u64::from(high & 0xf_ffff) << 32 | u64::from(low);
            let mut left = (f64::from_bits(bits) - 1.0) * total;
            let mut class = 0;
            while left >= powers[class] {
                left -= powers[class];
                class += 1;
            }
            want.push(i64::try_from(class).unwrap());
        }
    }
    assert_eq!(found.collect::<Vec<_>>(), want);
    let open = make(None);
    let draw =
        |samples: i32| run_within(&open, &[bytes_of(&logits), bytes_of_ints(&[samples])], 1 << 10);
    assert_eq!(draw(5).unwrap()[0][..80], run(&make(Some(5)), &[bytes_of(&logits)])[0]);
    for samples in [-1, i32::MAX, i32::MIN] {
        assert!(draw(samples).is_err(), "{samples}");
    }
}

#[test]
fn rows_are_looked_up_by_their_keys() {
    let mut file = TfliteFile::new();
    let lookups = file.input("lookups", I32, &[4]);
    let keys = file.int_constant("keys", &[3], &[-2, 5, 9]);
    let table = file.float_constant("table", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = file.tensor("y", F32, &[4, 2]);
    let hits = file.tensor("hits", TensorKind::Uint8, &[4]);
    file.operator("HASHTABLE_LOOKUP", &[lookups, keys, table], &[y, hits]);
    file.outputs(&[y, hits]);
    let found = run(&file, &[bytes_of_ints(&[9, 0, -2, 5])]);
    assert_eq!(floats(&found[0]), [5.0, 6.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(found[1], [1, 0, 1, 1]);
}

/// Results of the interpreter.
#[test]
fn items_are_hashed_by_their_bytes() {
    let hash = [0.123, -0.321, 1.5, 0.75, -2.25, 0.01f32];
    let project = |kind: i8, weights: Option<&[f32]>| {
        let mut file = TfliteFile::new();
        let functions = file.float_constant("hash", &[3, 2], &hash);
        let items = file.input("items", I32, &[3, 2]);
        let mut inputs = vec![functions, items];
        inputs.extend(weights.map(|weights| file.float_constant("weights", &[3], weights)));
        let count = if kind == 2 { 6 } else { 3 };
        let y = file.tensor("y", I32, &[count]);
        file.operator_with("LSH_PROJECTION", &inputs, &[y], 4, vec![(0, Value::I8(kind))]);
        file.outputs(&[y]);
        ints(&run(&file, &[bytes_of_ints(&[12_345, 54_321, 67_890, 9_876, -12_345_678, -987])])[0])
    };
    let weights = [0.12, 0.34, 0.56];
    let dense = project(2, Some(&weights));
    assert_eq!(dense, DENSE);
    let sparse: Vec<i32> = (0..)
        .zip(dense.as_chunks::<2>().0)
        .map(|(at, bits)| 4 * at + 2 * bits[0] + bits[1])
        .collect();
    assert_eq!(project(1, Some(&weights)), sparse);
    assert_eq!(project(2, None), project(2, Some(&[1.0; 3])));
}

/// Of the items above.
const DENSE: [i32; 6] = [0, 0, 1, 0, 1, 1];

fn log_softmax(kind: TensorKind, zero_point: i64, row: &[u8]) -> Vec<u8> {
    let mut file = TfliteFile::new();
    let shape = [1, i32::try_from(row.len()).unwrap()];
    let x = file.input("x", kind, &shape);
    file.quantize(x, &[0.11], &[3], 0);
    let y = file.tensor("y", kind, &shape);
    file.quantize(y, &[1.0 / 16.0], &[zero_point], 0);
    file.operator("LOG_SOFTMAX", &[x], &[y]);
    file.outputs(&[y]);
    run(&file, &[row.to_vec()]).remove(0)
}

#[test]
fn logarithms_of_probabilities_are_within_a_step() {
    let row: Vec<u8> = (0..120u8).map(|at| at.wrapping_mul(57)).collect();
    for (kind, zero_point) in [(I8, 127i64), (TensorKind::Uint8, 255)] {
        let stored = |byte: u8| match kind {
            I8 => f64::from(byte.cast_signed()),
            _ => f64::from(byte),
        };
        let sum: f64 = row.iter().map(|&byte| (0.11 * stored(byte)).exp()).sum();
        let found = log_softmax(kind, zero_point, &row);
        for (&byte, &found) in row.iter().zip(&found) {
            let real = 16.0 * (0.11 * stored(byte) - sum.ln());
            let zero = if kind == I8 { 127.0 } else { 255.0 };
            let least = if kind == I8 { -128.0 } else { 0.0 };
            let want = (real + zero).max(least);
            assert!((stored(found) - want).abs() <= 1.0, "{byte}: {} for {want}", stored(found));
        }
    }
}

#[test]
fn numbers_of_16_bits_are_equal_by_their_values_and_less_by_what_is_stored() {
    // -8.61864 and -8.61785: in 256ths of one both are -2206.
    const VALUES: [i16; 2] = [-14_596, -31_355];
    let compare = |name: &str, scales: Option<[f32; 2]>| {
        let mut file = TfliteFile::new();
        let operands = [0, 1].map(|at| {
            let operand = file.input(["a", "b"][at], TensorKind::Int16, &[1]);
            if let Some(scales) = scales {
                file.quantize(operand, &[scales[at]], &[0], 0);
            }
            operand
        });
        let result = file.tensor("result", TensorKind::Bool, &[1]);
        file.operator(name, &operands, &[result]);
        file.outputs(&[result]);
        let inputs = VALUES.map(|value| value.to_le_bytes().to_vec());
        run(&file, &inputs).remove(0)[0] == 1
    };
    let scales = Some([0.000_590_479_6, 0.000_274_847_8]);
    assert!(compare("EQUAL", scales));
    assert!(!compare("NOT_EQUAL", scales));
    assert!(!compare("LESS", scales), "-14596 is stored, and -31355");
    assert!(compare("GREATER_EQUAL", scales));
    assert!(!compare("EQUAL", None));
    assert!(compare("NOT_EQUAL", None));
}

/// NNAPI's has four dimensions at most.
#[test]
fn dense_layers_of_floats_take_any_dimensions() {
    let (weights, bias, input) = (values(3 * 4, 1), values(3, 2), values(48, 3));
    for is_constant in [true, false] {
        let mut file = TfliteFile::new();
        let x = file.input("x", F32, &[1, 2, 3, 2, 4]);
        let factors = match is_constant {
            true => file.float_constant("weights", &[3, 4], &weights),
            false => file.input("weights", F32, &[3, 4]),
        };
        let offset = file.float_constant("bias", &[3], &bias);
        let y = file.tensor("y", F32, &[1, 2, 3, 2, 3]);
        let relu_keeping_dimensions = vec![(0, Value::I8(1)), (2, Value::I8(1))];
        let arguments = [x, factors, offset];
        file.operator_with("FULLY_CONNECTED", &arguments, &[y], 8, relu_keeping_dimensions);
        file.outputs(&[y]);
        let mut given = vec![bytes_of(&input)];
        given.extend((!is_constant).then(|| bytes_of(&weights)));
        let got = floats(&run(&file, &given)[0]);
        for (at, got) in got.into_iter().enumerate() {
            let (row, unit) = (at / 3, at % 3);
            let products = (0..4).map(|k| input[row * 4 + k] * weights[unit * 4 + k]);
            let want = (products.sum::<f32>() + bias[unit]).max(0.0);
            assert!((got - want).abs() < 1e-5, "{at}: {got} for {want}");
        }
    }
}
