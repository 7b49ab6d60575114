//! Files of one operator each, in sizes that networks have.

use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::{Fields, FlexNumber, TfliteFile, Value, flex_numbers};

/// A name and what makes the bytes of the file.
pub(crate) type OperatorFile = (&'static str, fn() -> Vec<u8>);

/// All of them.
pub(crate) const OPERATORS: &[OperatorFile] = &[
    ("operator_conv_16x8", || conv_16x8(28, 3, 64, 64)),
    ("operator_conv_point_16x8", || conv_16x8(28, 1, 64, 128)),
    ("operator_depthwise_16x8", || depthwise_16x8(56, 3, 64)),
    ("operator_dense_hybrid_1", || dense_hybrid(1)),
    ("operator_dense_hybrid_8", || dense_hybrid(8)),
    ("operator_matmul_float", || matmul(TensorKind::Float32)),
    ("operator_matmul_int8", || matmul(TensorKind::Int8)),
    ("operator_resize_bilinear_float", || resize("RESIZE_BILINEAR", 15, TensorKind::Float32)),
    ("operator_resize_bilinear_int8", || resize("RESIZE_BILINEAR", 15, TensorKind::Int8)),
    ("operator_resize_nearest_float", || {
        resize("RESIZE_NEAREST_NEIGHBOR", 74, TensorKind::Float32)
    }),
    ("operator_resize_nearest_int8", || resize("RESIZE_NEAREST_NEIGHBOR", 74, TensorKind::Int8)),
    ("operator_detection_fast", || detection(false)),
    ("operator_detection_regular", || detection(true)),
];

/// Bytes of no pattern, none of them -128.
fn bytes(count: i32) -> Vec<u8> {
    let mut state = 1u32;
    let byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [.., last] = state.to_le_bytes();
        if last == 0x80 { 0 } else { last }
    };
    std::iter::repeat_with(byte).take(usize::try_from(count).unwrap_or(0)).collect()
}

fn scales(channels: i32) -> Vec<f32> {
    bytes(channels).into_iter().map(|byte| 0.001 + f32::from(byte) * 1e-5).collect()
}

fn zeros(channels: i32) -> Vec<i64> {
    vec![0; usize::try_from(channels).unwrap_or(0)]
}

fn quantised(file: &mut TfliteFile, tensor: i32, kind: TensorKind) {
    match kind {
        TensorKind::Int8 => file.quantize(tensor, &[0.05], &[-3], 0),
        TensorKind::Int16 => file.quantize(tensor, &[2e-4], &[0], 0),
        _ => {}
    }
}

/// An operator with one input that it computes one result from.
fn from_one(
    kind: TensorKind,
    [input, output]: [&[i32]; 2],
    add: impl FnOnce(&mut TfliteFile, i32, i32),
) -> Vec<u8> {
    let mut file = TfliteFile::new();
    let x = file.input("x", kind, input);
    let y = file.tensor("y", kind, output);
    for tensor in [x, y] {
        quantised(&mut file, tensor, kind);
    }
    add(&mut file, x, y);
    file.outputs(&[y]);
    file.build()
}

/// A bias of 64 bits for each channel, of small values.
fn bias(file: &mut TfliteFile, channels: i32) -> i32 {
    let values = bytes(channels).into_iter().flat_map(|byte| i64::from(byte).to_le_bytes());
    let values: Vec<u8> = values.collect();
    let bias = file.constant("bias", TensorKind::Int64, &[channels], &values);
    let scales: Vec<f32> = scales(channels).iter().map(|scale| scale * 2e-4).collect();
    file.quantize(bias, &scales, &zeros(channels), 0);
    bias
}

/// A convolution of 16-bit activations with 8-bit weights, padded to cover the image.
fn conv_16x8(extent: i32, window: i32, depth: i32, channels: i32) -> Vec<u8> {
    let shapes = [&[1, extent, extent, depth][..], &[1, extent, extent, channels]];
    from_one(TensorKind::Int16, shapes, |file, x, y| {
        let shape = [channels, window, window, depth];
        let weights = file.constant("w", TensorKind::Int8, &shape, &bytes(shape.iter().product()));
        file.quantize(weights, &scales(channels), &zeros(channels), 0);
        let bias = bias(file, channels);
        let fields = vec![(1, Value::I32(1)), (2, Value::I32(1)), (3, Value::I8(1))];
        file.operator_with("CONV_2D", &[x, weights, bias], &[y], 1, fields);
    })
}

fn depthwise_16x8(extent: i32, window: i32, depth: i32) -> Vec<u8> {
    let shape = &[1, extent, extent, depth][..];
    from_one(TensorKind::Int16, [shape, shape], |file, x, y| {
        let shape = [1, window, window, depth];
        let weights = file.constant("w", TensorKind::Int8, &shape, &bytes(shape.iter().product()));
        file.quantize(weights, &scales(depth), &zeros(depth), 3);
        let bias = bias(file, depth);
        let fields =
            vec![(1, Value::I32(1)), (2, Value::I32(1)), (3, Value::I32(1)), (4, Value::I8(1))];
        file.operator_with("DEPTHWISE_CONV_2D", &[x, weights, bias], &[y], 2, fields);
    })
}

/// A dense layer of floats with 8-bit weights, whose rows are quantised on the fly.
fn dense_hybrid(rows: i32) -> Vec<u8> {
    const WIDTH: i32 = 512;
    let shape = &[rows, WIDTH][..];
    from_one(TensorKind::Float32, [shape, shape], |file, x, y| {
        let weights = file.constant("w", TensorKind::Int8, &[WIDTH, WIDTH], &bytes(WIDTH * WIDTH));
        file.quantize(weights, &[0.004], &[0], 0);
        file.operator_with("FULLY_CONNECTED", &[x, weights], &[y], 8, Fields::new());
    })
}

/// The products of eight pairs of matrices.
fn matmul(kind: TensorKind) -> Vec<u8> {
    let shape = [8, 64, 64];
    let mut file = TfliteFile::new();
    let inputs = ["a", "b"].map(|name| file.input(name, kind, &shape));
    let product = file.tensor("product", kind, &shape);
    for tensor in [inputs[0], inputs[1], product] {
        quantised(&mut file, tensor, kind);
    }
    file.operator_with("BATCH_MATMUL", &inputs, &[product], 101, Fields::new());
    file.outputs(&[product]);
    file.build()
}

/// An image to twice its extents, options being the number of the operator's.
fn resize(operator: &str, options: u8, kind: TensorKind) -> Vec<u8> {
    from_one(kind, [&[1, 32, 32, 32], &[1, 64, 64, 32]], |file, x, y| {
        let size = file.int_constant("size", &[2], &[64, 64]);
        // Half-pixel centres.
        let centres = if options == 15 { 3 } else { 1 };
        let fields = vec![(centres, Value::U8(1))];
        file.operator_with(operator, &[x, size], &[y], options, fields);
    })
}

/// The end of an SSD: 1917 anchors, 91 classes, ten detections.
fn detection(is_regular: bool) -> Vec<u8> {
    use FlexNumber::{Float, Int};
    const ANCHORS: i32 = 1917;
    const CLASSES: i32 = 91;
    const FOUND: i32 = 10;
    let mut file = TfliteFile::new();
    let boxes = file.input("boxes", TensorKind::Float32, &[1, ANCHORS, 4]);
    let scores = file.input("scores", TensorKind::Float32, &[1, ANCHORS, CLASSES + 1]);
    let places: Vec<f32> = bytes(4 * ANCHORS)
        .chunks(4)
        .flat_map(|anchor| {
            let at = |index: usize| f32::from(anchor.get(index).copied().unwrap_or(0)) / 255.0;
            [at(0), at(1), 0.1 + at(2) / 4.0, 0.1 + at(3) / 4.0]
        })
        .collect();
    let anchors = file.float_constant("anchors", &[ANCHORS, 4], &places);
    let results = [&[1, FOUND, 4][..], &[1, FOUND], &[1, FOUND], &[1]];
    let results = results.map(|shape| file.tensor("found", TensorKind::Float32, shape));
    let options = flex_numbers(&[
        ("max_detections", Int(FOUND)),
        ("max_classes_per_detection", Int(1)),
        ("detections_per_class", Int(100)),
        ("use_regular_nms", Int(i32::from(is_regular))),
        ("nms_score_threshold", Float(0.3)),
        ("nms_iou_threshold", Float(0.6)),
        ("num_classes", Int(CLASSES)),
        ("y_scale", Float(10.0)),
        ("x_scale", Float(10.0)),
        ("h_scale", Float(5.0)),
        ("w_scale", Float(5.0)),
    ]);
    let name = "TFLite_Detection_PostProcess";
    file.custom_operator(name, &[boxes, scores, anchors], &results, &options);
    file.outputs(&results);
    file.build()
}
