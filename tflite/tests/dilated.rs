//! Convolutions of batches as the dilated ones that they are.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers of a test"
)]

#[path = "common/plan.rs"]
mod plan;

use nnburst_executor::{Control, Input, Output};
use nnburst_hal::{OperationType, View, ViewMut};
use nnburst_tflite::testing::{TfliteFile, Value};
use nnburst_tflite::{ImportOptions, Imported, ModelFile, TensorKind};

/// A convolution of batches.
struct Case {
    what: &'static str,
    kind: TensorKind,
    /// The image, `[batch, height, width, channels]`.
    image: [i32; 4],
    block: [i32; 2],
    borders: [i32; 4],
    crops: [i32; 4],
    /// Results of each channel where it is depthwise.
    times: Option<i32>,
    dilation: [i32; 2],
}

impl Case {
    /// A filter of 3 by 2 taps over the batches of the image.
    fn file(&self) -> TfliteFile {
        let Self { kind, image, block, borders, crops, times, dilation, .. } = *self;
        let is_float = kind == TensorKind::Float32;
        let mut file = TfliteFile::new();
        let [n, height, width, depth] = image;
        let spatial = |at: usize, extent: i32| {
            let padded = extent + borders[2 * at] + borders[2 * at + 1];
            let windows = padded / block[at] - [2, 1][at] * dilation[at];
            [padded / block[at], windows, windows * block[at] - crops[2 * at] - crops[2 * at + 1]]
        };
        let ([h, y, out_h], [w, x, out_w]) = (spatial(0, height), spatial(1, width));
        let (batches, outputs) = (n * block[0] * block[1], times.map_or(3, |times| depth * times));
        let input = file.input("image", kind, &image);
        let spread = file.tensor("spread", kind, &[batches, h, w, depth]);
        let conv = file.tensor("conv", kind, &[batches, y, x, outputs]);
        let output = file.tensor("output", kind, &[n, out_h, out_w, outputs]);
        let blocks = file.int_constant("block", &[2], &block);
        let borders = file.int_constant("borders", &[2, 2], &borders);
        let crops = file.int_constant("crops", &[2, 2], &crops);
        let shape = if times.is_some() { [1, 3, 2, outputs] } else { [outputs, 3, 2, depth] };
        let values: Vec<i8> = (0..).map(|i: i32| (i * 29 % 23 - 11) as i8).take(6 * 60).collect();
        let count = shape.iter().product::<i32>() as usize;
        let filter = match is_float {
            true => {
                let values: Vec<f32> =
                    values[..count].iter().map(|&x| f32::from(x) / 7.0).collect();
                file.float_constant("filter", &shape, &values)
            }
            false => {
                let bytes: Vec<u8> = values[..count].iter().map(|x| x.cast_unsigned()).collect();
                file.constant("filter", kind, &shape, &bytes)
            }
        };
        let biases: Vec<i32> = (0..outputs).map(|i| 5 - i * 3).collect();
        let bias = match is_float {
            true => file.float_constant("bias", &[outputs], &vec![0.25; outputs as usize]),
            false => file.int_constant("bias", &[outputs], &biases),
        };
        if !is_float {
            for (tensor, scale, zero) in [
                (input, 0.5, 3),
                (spread, 0.5, 3),
                (filter, 0.25, 0),
                (bias, 0.125, 0),
                (conv, 2.0, -1),
                (output, 2.0, -1),
            ] {
                file.quantize(tensor, &[scale], &[zero], 0);
            }
        }
        file.operator("SPACE_TO_BATCH_ND", &[input, blocks, borders], &[spread]);
        let [one, valid, relu] = [Value::I32(1), Value::I8(1), Value::I8(1)];
        let mut fields = vec![(0, valid), (1, one.clone()), (2, one)];
        let [down, across] = dilation.map(Value::I32);
        match times {
            Some(times) => {
                fields.extend([(3, Value::I32(times)), (4, relu), (5, across), (6, down)]);
                file.operator_with(
                    "DEPTHWISE_CONV_2D",
                    &[spread, filter, bias],
                    &[conv],
                    2,
                    fields,
                );
            }
            None => {
                fields.extend([(3, relu), (4, across), (5, down)]);
                file.operator_with("CONV_2D", &[spread, filter, bias], &[conv], 1, fields);
            }
        }
        file.operator("BATCH_TO_SPACE_ND", &[conv, blocks, crops], &[output]);
        file.outputs(&[output]);
        file
    }
}

fn run(imported: &Imported, image: &[u8]) -> Vec<u8> {
    let mut outputs: Vec<Vec<u8>> =
        imported.outputs.iter().map(|info| vec![0; info.byte_len().unwrap()]).collect();
    let taken: Vec<_> = outputs.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
    let given = [Input::new(View::of(image))];
    plan::compile(imported).unwrap().session().run(&given, &taken, &Control::default()).unwrap();
    outputs.swap_remove(0)
}

#[test]
fn a_convolution_of_batches_is_one_of_the_image() {
    use TensorKind::{Float32, Int8};
    let plain = Case {
        what: "floats",
        kind: Float32,
        image: [2, 6, 7, 3],
        block: [2, 2],
        borders: [2, 2, 1, 2],
        crops: [0; 4],
        times: None,
        dilation: [1, 1],
    };
    let cases = [
        Case { what: "results cropped", crops: [1, 2, 0, 1], ..plain },
        Case { what: "bytes", kind: Int8, ..plain },
        Case { what: "bytes cropped", kind: Int8, crops: [0, 2, 1, 1], ..plain },
        Case { what: "depthwise", times: Some(2), ..plain },
        Case { what: "depthwise, of bytes", kind: Int8, times: Some(1), ..plain },
        Case { what: "of one line", block: [1, 4], borders: [0, 0, 3, 2], ..plain },
        Case {
            what: "dilated batches",
            image: [1, 11, 9, 4],
            dilation: [2, 2],
            borders: [3, 4, 2, 1],
            ..plain
        },
        plain,
    ];
    for case in cases {
        let file = ModelFile::from_bytes(case.file().build());
        let image = case.image.iter().product::<i32>();
        let image: Vec<u8> = match case.kind {
            Float32 => {
                (0..image).flat_map(|i| ((i * 37 % 101 - 50) as f32 / 8.0).to_le_bytes()).collect()
            }
            _ => (0..image).map(|i| (i * 37 % 251) as u8).collect(),
        };
        let import = |keep_tensors| {
            let options = ImportOptions { keep_tensors, ..ImportOptions::default() };
            file.import(options).unwrap()
        };
        let one = import(false);
        let kind = case.times.map_or(OperationType::Conv2d, |_| OperationType::DepthwiseConv2d);
        let kinds: Vec<_> = one.model.main.operations.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [kind], "{}", case.what);
        assert_eq!((&one.sources[..], one.operators.len()), (&[1][..], 3), "{}", case.what);
        // Where what lies between is asked for, all of them are there.
        let all = import(true);
        assert!(all.model.main.operations.len() >= 3, "{}", case.what);
        assert_eq!(run(&one, &image), run(&all, &image), "{}", case.what);
    }
}

/// Sequences are spread in one dimension, and images of one line for the convolution alone.
#[test]
fn a_convolution_of_batches_of_sequences_is_one_of_a_line() {
    const FLOAT: TensorKind = TensorKind::Float32;
    for (borders, crops, width) in [([3, 2], [0, 0], 9), ([2, 3], [1, 1], 7), ([0, 2], [0, 1], 5)] {
        let mut file = TfliteFile::new();
        let x = file.input("x", FLOAT, &[2, 7, 2]);
        let padded = 7 + borders[0] + borders[1];
        let (lines, windows) = (padded / 3, padded / 3 - 1);
        let mut tensor = |name, shape: &[i32]| file.tensor(name, FLOAT, shape);
        let spread = tensor("spread", &[6, lines, 2]);
        let line = tensor("line", &[6, 1, lines, 2]);
        let conv = tensor("conv", &[6, 1, windows, 3]);
        let rows = tensor("rows", &[6, windows, 3]);
        let y = tensor("y", &[2, width, 3]);
        let block = file.int_constant("block", &[1], &[3]);
        let borders = file.int_constant("borders", &[1, 2], &borders);
        let crops = file.int_constant("crops", &[1, 2], &crops);
        let values: Vec<f32> = (0u8..12).map(|at| f32::from(at * 7 % 11) - 5.0).collect();
        let filter = file.float_constant("filter", &[3, 1, 2, 2], &values);
        let bias = file.float_constant("bias", &[3], &[0.5, -1.0, 2.0]);
        file.operator("SPACE_TO_BATCH_ND", &[x, block, borders], &[spread]);
        file.operator("RESHAPE", &[spread], &[line]);
        let valid = vec![(0, Value::I8(1)), (1, Value::I32(1)), (2, Value::I32(1))];
        file.operator_with("CONV_2D", &[line, filter, bias], &[conv], 1, valid);
        file.operator("RESHAPE", &[conv], &[rows]);
        file.operator("BATCH_TO_SPACE_ND", &[rows, block, crops], &[y]);
        // Another one of the same batches.
        let twin = |name: &str| format!("{name} of the other");
        let other = file.tensor(&twin("conv"), FLOAT, &[6, 1, windows, 3]);
        let other_rows = file.tensor(&twin("rows"), FLOAT, &[6, windows, 3]);
        let z = file.tensor("z", FLOAT, &[2, width, 3]);
        let valid = vec![(0, Value::I8(1)), (1, Value::I32(1)), (2, Value::I32(1))];
        let zeros = file.float_constant("zeros", &[3], &[0.0; 3]);
        file.operator_with("CONV_2D", &[line, filter, zeros], &[other], 1, valid);
        file.operator("RESHAPE", &[other], &[other_rows]);
        file.operator("BATCH_TO_SPACE_ND", &[other_rows, block, crops], &[z]);
        file.outputs(&[y, z]);
        let file = ModelFile::from_bytes(file.build());
        let import = |keep_tensors| {
            let options = ImportOptions { keep_tensors, ..ImportOptions::default() };
            file.import(options).unwrap()
        };
        let one = import(false);
        let kinds: Vec<_> = one.model.main.operations.iter().map(|it| it.kind).collect();
        let reshape = OperationType::Reshape;
        let conv = OperationType::Conv2d;
        assert_eq!(kinds, [reshape, conv, reshape, conv, reshape], "{width}");
        let image: Vec<u8> =
            (0u8..28).flat_map(|at| f32::from(at * 5 % 13).to_le_bytes()).collect();
        assert_eq!(run(&one, &image), run(&import(true), &image), "{width}");
    }
}

#[test]
fn what_is_no_dilated_convolution_stays() {
    let plain = Case {
        what: "padding of a tap that is beyond what windows reach",
        kind: TensorKind::Float32,
        image: [1, 6, 6, 2],
        block: [2, 2],
        borders: [6, 6, 0, 0],
        crops: [0; 4],
        times: None,
        dilation: [1, 1],
    };
    let cases = [
        Case { what: "more cropped than padded", borders: [0; 4], crops: [1, 0, 0, 0], ..plain },
        plain,
    ];
    for case in cases {
        let imported = Imported::from_bytes(&case.file().build()).unwrap();
        let kinds: Vec<_> = imported.model.main.operations.iter().map(|it| it.kind).collect();
        assert_eq!(kinds[0], OperationType::SpaceToBatchNd, "{}", case.what);
        run(&imported, &vec![0; 4 * 72]);
    }
}
