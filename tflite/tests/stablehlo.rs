//! Operators of STABLEHLO, windows of any rank and what networks of speech begin with: small
//! results that can be followed by hand, and what nothing can be computed with.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/file.rs"]
mod file;
#[path = "common/plan.rs"]
mod plan;

use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::{Fields, TfliteFile, Value, flex_map};

const F32: TensorKind = TensorKind::Float32;
const I32: TensorKind = TensorKind::Int32;

/// The first output of a file, or why it does not run.
fn run(file: &TfliteFile, inputs: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    Ok(file::outputs(&file::import(file)?, inputs, 0)?.remove(0))
}

fn bytes_of(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn ints(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect()
}

fn reals(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn longs(slot: usize, values: &[i64]) -> (usize, Value) {
    (slot, Value::longs(values))
}

/// A file of one operator with tensors of INT32 and options of the second union.
fn file(name: &str, inputs: &[&[i32]], result: &[i32], options: (u8, Fields)) -> TfliteFile {
    let mut file = TfliteFile::new();
    let inputs: Vec<i32> = inputs.iter().map(|shape| file.input("in", I32, shape)).collect();
    let output = file.tensor("out", I32, result);
    let (union, fields) = options;
    file.operator_with_second(name, &inputs, &[output], union, fields);
    file.outputs(&[output]);
    file
}

/// With a second graph: of one operator that combines two numbers, or of none.
fn combined_by(mut file: TfliteFile, name: Option<&str>) -> TfliteFile {
    file.next_graph();
    let (a, b) = (file.input("a", I32, &[]), file.input("b", I32, &[]));
    let result = file.tensor("result", I32, &[]);
    match name {
        Some(name) => {
            file.operator(name, &[a, b], &[result]);
            file.outputs(&[result]);
        }
        None => file.outputs(&[b]),
    }
    file
}

#[test]
fn borders_are_added_or_cut_off() {
    let pad = |low: i64, high: i64, between: i64, result: i32| {
        let lists = vec![longs(0, &[low]), longs(1, &[high]), longs(2, &[between])];
        let file = file("STABLEHLO_PAD", &[&[3], &[]], &[result], (10, lists));
        run(&file, &[bytes_of(&[1, 2, 3]), bytes_of(&[9])]).map(|bytes| ints(&bytes))
    };
    assert_eq!(pad(1, 2, 0, 6).unwrap(), [9, 1, 2, 3, 9, 9]);
    assert_eq!(pad(0, 0, 1, 5).unwrap(), [1, 9, 2, 9, 3]);
    // What lay between elements becomes a border.
    assert_eq!(pad(-1, -1, 1, 3).unwrap(), [9, 2, 9]);
    assert_eq!(pad(-3, 1, 1, 3).unwrap(), [9, 3, 9]);
    for hostile in
        [(0, 0, -1), (i64::MAX, 0, 0), (0, i64::MIN, 0), (0, 0, i64::MAX), (1 << 30, 0, 0)]
    {
        let (low, high, between) = hostile;
        assert!(pad(low, high, between, 3).is_err(), "{hostile:?}");
    }
}

fn windows(
    size: i64,
    stride: i64,
    padding: [i64; 2],
    result: i32,
    by: &str,
) -> Result<Vec<i32>, String> {
    let lists =
        vec![longs(0, &[size]), longs(1, &[stride]), longs(4, &padding), (5, Value::I32(1))];
    let file = file("STABLEHLO_REDUCE_WINDOW", &[&[5], &[]], &[result], (13, lists));
    let file = combined_by(file, Some(by));
    run(&file, &[bytes_of(&[3, 1, 4, 1, 5]), bytes_of(&[0])]).map(|bytes| ints(&bytes))
}

#[test]
fn windows_begin_with_a_number_and_end_at_the_border() {
    assert_eq!(windows(3, 2, [0, 0], 2, "STABLEHLO_ADD").unwrap(), [8, 10]);
    assert_eq!(windows(3, 2, [1, 1], 3, "MAXIMUM").unwrap(), [3, 4, 5]);
    assert_eq!(windows(2, 1, [0, 0], 4, "LOGICAL_AND").unwrap(), [0; 4]);
    assert!(windows(2, 1, [0, 0], 4, "SUB").unwrap_err().contains("SUB does not reduce windows"));
    let hostile: [(i64, i64, [i64; 2]); 6] = [
        (0, 1, [0, 0]),
        (2, 0, [0, 0]),
        (-1, 1, [0, 0]),
        (2, 1, [-9, 0]),
        (2, 1, [i64::MAX, i64::MAX]),
        (1 << 30, 1, [1 << 30, 0]),
    ];
    for (size, stride, padding) in hostile {
        assert!(windows(size, stride, padding, 4, "ADD").is_err(), "{size} {stride} {padding:?}");
    }
}

#[test]
fn updates_beyond_the_tensor_are_left_out() {
    let scatter = |by, positions: &[i32]| {
        let lists = vec![
            longs(1, &[]),
            longs(2, &[0]),
            longs(3, &[0]),
            (4, Value::I64(1)),
            (6, Value::I32(1)),
        ];
        let file = file("STABLEHLO_SCATTER", &[&[4], &[3, 1], &[3]], &[4], (7, lists));
        let inputs = [bytes_of(&[1, 2, 3, 4]), bytes_of(positions), bytes_of(&[10, 20, 30])];
        run(&combined_by(file, by), &inputs).map(|bytes| ints(&bytes))
    };
    assert_eq!(scatter(None, &[1, 1, 3]).unwrap(), [1, 20, 3, 30]);
    assert_eq!(scatter(Some("STABLEHLO_ADD"), &[1, 1, 3]).unwrap(), [1, 32, 3, 34]);
    assert_eq!(scatter(None, &[-1, 4, i32::MIN]).unwrap(), [1, 2, 3, 4]);
    assert!(scatter(Some("SUB"), &[0, 0, 0]).unwrap_err().contains("SUB does not scatter"));
}

#[test]
fn windows_that_reach_beyond_the_tensor_begin_earlier() {
    let gather = |dimension: i64, sizes: &[i64], positions: &[i32]| {
        let lists = vec![
            longs(0, &[1]),
            longs(1, &[]),
            longs(2, &[0]),
            (3, Value::I64(dimension)),
            longs(4, sizes),
        ];
        let file = file("STABLEHLO_GATHER", &[&[5], &[3, 1]], &[3, 2], (16, lists));
        let inputs = [bytes_of(&[1, 2, 3, 4, 5]), bytes_of(positions)];
        run(&file, &inputs).map(|bytes| ints(&bytes))
    };
    assert_eq!(gather(1, &[2], &[0, 4, -3]).unwrap(), [1, 2, 4, 5, 1, 2]);
    for (dimension, sizes) in
        [(1, &[6][..]), (2, &[2]), (-1, &[2]), (1, &[-1]), (1, &[2, 2]), (1, &[])]
    {
        assert!(gather(dimension, sizes, &[0, 0, 0]).is_err(), "{dimension} {sizes:?}");
    }
}

#[test]
fn values_are_stored_in_few_bits_and_back() {
    let fake = |min: f32, max: f32, bits: i32, narrow: i8| {
        let mut file = TfliteFile::new();
        let x = file.input("x", F32, &[4]);
        let y = file.tensor("y", F32, &[4]);
        let fields = vec![
            (0, Value::F32(min)),
            (1, Value::F32(max)),
            (2, Value::I32(bits)),
            (3, Value::I8(narrow)),
        ];
        file.operator_with("FAKE_QUANT", &[x], &[y], 58, fields);
        file.outputs(&[y]);
        run(&file, &[floats(&[-9.0, 0.4, 1.6, 9.0])]).map(|bytes| reals(&bytes))
    };
    assert_eq!(fake(-1.0, 2.0, 2, 0).unwrap(), [-1.0, 0.0, 2.0, 2.0]);
    for hostile in [(1.0, 2.0, 8, 0), (0.0, 0.0, 8, 0), (-1.0, 1.0, 31, 0), (-1.0, 1.0, 8, 1)] {
        let (min, max, bits, narrow) = hostile;
        assert!(fake(min, max, bits, narrow).is_err(), "{hostile:?}");
    }
    assert!(fake(f32::NAN, 1.0, 8, 0).is_err() && fake(f32::MIN, f32::MAX, 8, 0).is_err());
}

fn speech(
    name: &str,
    shape: &[i32],
    result: &[i32],
    options: &[u8],
    rate: Option<i32>,
) -> Result<Vec<f32>, String> {
    let mut file = TfliteFile::new();
    let mut inputs = vec![file.input("x", F32, shape)];
    inputs.extend(rate.map(|rate| file.int_constant("rate", &[1], &[rate])));
    let output = file.tensor("y", F32, result);
    file.custom_operator(name, &inputs, &[output], options);
    file.outputs(&[output]);
    let count = usize::try_from(shape.iter().product::<i32>()).unwrap();
    run(&file, &[floats(&vec![1.0; count])]).map(|bytes| reals(&bytes))
}

#[test]
fn a_constant_has_no_frequency() {
    let spectrum = |window: i32, stride: i32, squared: i32| {
        let options = flex_map(&[
            ("window_size", window),
            ("stride", stride),
            ("magnitude_squared", squared),
        ]);
        speech("AudioSpectrogram", &[8, 1], &[1, 2, 3], &options, None)
    };
    // Faded by 0, 0.5, 1, 0.5: a sum of 2, and half of it at the first frequency.
    assert_eq!(spectrum(4, 3, 1).unwrap(), [4.0, 1.0, 0.0, 4.0, 1.0, 0.0]);
    assert_eq!(spectrum(4, 3, 0).unwrap(), [2.0, 1.0, 0.0, 2.0, 1.0, 0.0]);
    for (window, stride) in [(0, 1), (1, 1), (-4, 1), (4, 0), (4, -1), (i32::MAX, 1)] {
        assert!(spectrum(window, stride, 1).is_err(), "{window} {stride}");
    }
    let broken = speech("AudioSpectrogram", &[8, 1], &[1, 2, 3], &[1, 2, 3], None);
    assert!(broken.unwrap_err().contains("its options are no map"));
}

#[test]
fn bands_that_hold_nothing_have_the_least_logarithm() {
    let mfcc = |upper: i32, lower: i32, bands: i32, coefficients: i32, rate: i32| {
        let options = flex_map(&[
            ("upper_frequency_limit", upper),
            ("lower_frequency_limit", lower),
            ("filterbank_channel_count", bands),
            ("dct_coefficient_count", coefficients),
        ]);
        speech("Mfcc", &[1, 1, 5], &[1, 1, 1], &options, Some(rate))
    };
    // One band of 0 to 4000 Hz, of 5 frequencies 1000 Hz apart.
    let found = mfcc(4000, 0, 1, 1, 8000).unwrap()[0];
    let mels = |hertz: f64| 1127.0 * (hertz / 700.0).ln_1p();
    let middle = mels(4000.0) / 2.0;
    let weight = |hertz: f64| 1.0 - (mels(hertz) - middle).abs() / middle;
    let want = [1000.0, 2000.0, 3000.0, 4000.0].map(weight).iter().sum::<f64>().ln() * 2f64.sqrt();
    assert!((f64::from(found) - want).abs() < 1e-5, "{found} for {want}");
    // The spectrum ends below the bands.
    assert_eq!(mfcc(4000, 0, 1, 1, 4000).unwrap(), [0.0]);
    let hostile = [
        (0, 4000, 1, 1, 8000),
        (4000, -1, 1, 1, 8000),
        (4000, 0, 0, 1, 8000),
        (4000, 0, 1, 2, 8000),
        (4000, 0, 1, 0, 8000),
        (4000, 0, 1, 1, 0),
        (4000, 0, i32::MAX, i32::MAX, 8000),
    ];
    for (upper, lower, bands, coefficients, rate) in hostile {
        assert!(mfcc(upper, lower, bands, coefficients, rate).is_err(), "{upper} {lower} {bands}");
    }
}

#[test]
fn rows_are_summed_by_weight() {
    let look_up = |ids: &[i32], places: &[i32], combiner: i8| {
        let mut file = TfliteFile::new();
        let tensors = [
            file.input("ids", I32, &[3]),
            file.input("places", I32, &[3, 2]),
            file.int_constant("shape", &[2], &[2, 2]),
            file.float_constant("weights", &[3], &[3.0, 4.0, 2.0]),
            file.float_constant("table", &[2, 1], &[1.0, 10.0]),
        ];
        let output = file.tensor("out", F32, &[2, 1]);
        let fields = vec![(0, Value::I8(combiner))];
        file.operator_with("EMBEDDING_LOOKUP_SPARSE", &tensors, &[output], 20, fields);
        file.outputs(&[output]);
        run(&file, &[bytes_of(ids), bytes_of(places)]).map(|bytes| reals(&bytes))
    };
    let places = [0, 0, 0, 1, 1, 0];
    assert_eq!(look_up(&[0, 1, 1], &places, 0).unwrap(), [43.0, 20.0]);
    assert_eq!(look_up(&[0, 1, 1], &places, 1).unwrap(), [43.0 / 7.0, 10.0]);
    assert_eq!(look_up(&[0, 1, 1], &places, 2).unwrap(), [43.0 / 5.0, 10.0]);
    assert!(look_up(&[0, 2, 1], &places, 0).is_err() && look_up(&[0, -1, 1], &places, 0).is_err());
    assert!(
        look_up(&[0; 3], &[0, 0, 2, 0, 0, 0], 0).is_err() && look_up(&[0; 3], &places, 3).is_err()
    );
}

#[test]
fn what_is_only_verified_gives_nothing() {
    let mut file = TfliteFile::new();
    let stored = file.input("stored", TensorKind::Int8, &[2]);
    file.quantize(stored, &[0.5], &[0], 0);
    let x = file.input("x", F32, &[2]);
    let y = file.tensor("y", F32, &[2]);
    file.custom_operator("NumericVerify", &[stored, x], &[], &0.5f32.to_le_bytes());
    file.operator("NEG", &[x], &[y]);
    file.outputs(&[y]);
    let found = run(&file, &[vec![1, 2], floats(&[1.0, 2.0])]).unwrap();
    assert_eq!(reals(&found), [-1.0, -2.0]);
}
