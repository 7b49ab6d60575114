//! Operators that cut images into blocks, look at their neighbourhoods, or draw boxes on them.

use nnburst_tflite::TensorKind::{Float32, Int8, Int16, Int32, Int64, Uint8};
use nnburst_tflite::testing::{FlexNumber, flex_numbers};

use super::{ANY, at, rank};
use crate::net::{Net, ValueRange, int};

/// Blocks of one or two spatial dimensions, moved to the batch or back.
pub(super) fn batches(net: &mut Net, name: &'static str) {
    let kind = net.kind(ANY);
    let is_cut = name == "SPACE_TO_BATCH_ND";
    let (mut image, mut batches) = (vec![net.random.within(1, 2)], vec![1]);
    let (mut block, mut borders) = (Vec::new(), Vec::new());
    for _ in 0..net.random.within(1, 2) {
        let (own, blocks) = (net.random.within(1, 3), net.random.within(1, 4));
        let whole = own * blocks;
        // Something is left of the image.
        let head = net.random.below(whole.min(3));
        let tail = net.random.below((whole - head).min(3));
        image.push(whole - head - tail);
        batches.push(blocks);
        block.push(own);
        borders.extend([head, tail]);
    }
    batches[0] = image[0] * block.iter().product::<i32>();
    let channels = net.random.within(1, 5);
    image.push(channels);
    batches.push(channels);
    let (from, to) = if is_cut { (&image, &batches) } else { (&batches, &image) };
    let input = net.plain_input(kind, from);
    let output = net.moved(&[input], kind, to);
    let pairs = net.file.int_constant("borders", &[rank(&block), 2], &borders);
    let block = net.ints(&block);
    net.operator(name, &[input, block, pairs], &[output], 0, Vec::new());
}

/// Blocks moved to the channels or back.
pub(super) fn channels(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Uint8, Int8, Int32, Int64]);
    let block = net.random.within(1, 3);
    let [batch, height, width, depth] = [2, 4, 4, 4].map(|most| net.random.within(1, most));
    let image = [batch, height * block, width * block, depth];
    let blocks = [batch, height, width, depth * block * block];
    let is_cut = name == "SPACE_TO_DEPTH";
    let (from, to, union) = if is_cut { (image, blocks, 19) } else { (blocks, image, 94) };
    let input = net.plain_input(kind, &from);
    let output = net.moved(&[input], kind, &to);
    net.operator(name, &[input], &[output], union, vec![int(0, block)]);
}

/// Values divided by those of the channels around them.
pub(super) fn local_response(net: &mut Net, name: &'static str) {
    use nnburst_tflite::testing::Value;
    net.kind(&[Float32]);
    let shape = net.shape((4, 4));
    let radius = net.random.within(0, 4);
    let mut real = |low, high| Value::F32(net.random.real(low, high));
    let fields =
        vec![int(0, radius), (1, real(0.5, 2.0)), (2, real(0.0, 1.0)), (3, real(0.1, 1.0))];
    let input = net.plain_input(Float32, &shape);
    let output = net.file.tensor("out", Float32, &shape);
    net.operator(name, &[input], &[output], 13, fields);
}

/// Boxes whose corners are in order, and their scores.
fn boxes(net: &mut Net, count: i32) -> [i32; 2] {
    let mut bytes = Vec::new();
    for _ in 0..count {
        let [y, x] = [0; 2].map(|_| net.random.real(0.0, 1.0));
        let [height, width] = [0; 2].map(|_| net.random.real(0.05, 0.8));
        bytes.extend([y, x, y + height, x + width].map(f32::to_le_bytes).concat());
    }
    let boxes = net.file.input("boxes", Float32, &[count, 4]);
    net.inputs.push(bytes);
    net.span = ValueRange(0.0, 1.0);
    [boxes, net.plain_input(Float32, &[count])]
}

pub(super) fn suppression(net: &mut Net, name: &'static str) {
    net.kind(&[Float32]);
    let (count, most) = (net.random.within(1, 12), net.random.within(1, 8));
    let [boxes, scores] = boxes(net, count);
    let most_tensor = net.file.int_constant("most", &[], &[most]);
    let [overlap, least, sigma] =
        [(0.1, 0.9), (0.0, 0.6), (0.0, 0.8)].map(|(low, high)| net.random.real(low, high));
    let mut inputs = vec![boxes, scores, most_tensor];
    inputs.extend([overlap, least].map(|value| net.file.float_constant("limit", &[], &[value])));
    let mut outputs = vec![net.file.tensor("chosen", Int32, &[most])];
    if name == "NON_MAX_SUPPRESSION_V5" {
        inputs.push(net.file.float_constant("sigma", &[], &[sigma]));
        outputs.push(net.file.tensor("scores", Float32, &[most]));
    }
    outputs.push(net.file.tensor("count", Int32, &[]));
    let union = if outputs.len() == 2 { 95 } else { 96 };
    net.operator(name, &inputs, &outputs, union, Vec::new());
}

/// Boxes around anchors, the best of each class.
pub(super) fn detection(net: &mut Net, name: &'static str) {
    net.kind(&[Float32]);
    let [anchors, classes, most] = [12, 4, 6].map(|most| net.random.within(1, most));
    net.span = ValueRange(-1.0, 1.0);
    let encodings = net.plain_input(Float32, &[1, anchors, 4]);
    net.span = ValueRange(0.0, 1.0);
    let scores = net.plain_input(Float32, &[1, anchors, classes + 1]);
    let bytes = net.bytes(Float32, &[anchors, 4]);
    let table = net.file.constant("anchors", Float32, &[anchors, 4], &bytes);
    let per_anchor = net.random.within(1, classes);
    let limits = [(0.05, 0.6), (0.2, 0.8)].map(|(low, high)| net.random.real(low, high));
    let number = FlexNumber::Float;
    let options = flex_numbers(&[
        ("max_detections", FlexNumber::Int(most)),
        ("max_classes_per_detection", FlexNumber::Int(per_anchor)),
        ("detections_per_class", FlexNumber::Int(most)),
        ("use_regular_nms", FlexNumber::Int(net.random.below(2))),
        ("nms_score_threshold", number(limits[0])),
        ("nms_iou_threshold", number(limits[1])),
        ("num_classes", FlexNumber::Int(classes)),
        ("y_scale", number(10.0)),
        ("x_scale", number(10.0)),
        ("h_scale", number(5.0)),
        ("w_scale", number(5.0)),
    ]);
    let rows = most * per_anchor;
    let outputs = [&[1, rows, 4][..], &[1, rows], &[1, rows], &[1]]
        .map(|shape| net.file.tensor("out", Float32, shape));
    net.file.custom_operator(name, &[encodings, scores, table], &outputs, &options);
    net.file.outputs(&outputs);
}

/// A diagonal made a matrix, or put into one.
pub(super) fn diagonal(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Uint8, Int16, Int32, Int64]);
    let mut shape = net.shape((2, 4));
    let last = shape.len() - 1;
    if name == "MATRIX_DIAG" {
        shape[last] = at(&shape, i32::try_from(last - 1).unwrap_or(0));
        let input = net.plain_input(kind, &shape[..last]);
        let output = net.moved(&[input], kind, &shape);
        net.operator(name, &[input], &[output], 88, Vec::new());
        return;
    }
    let input = net.plain_input(kind, &shape);
    let own = [&shape[..last - 1], &[shape[last].min(shape[last - 1])]].concat();
    let diagonal = net.plain_input(kind, &own);
    let output = net.moved(&[input, diagonal], kind, &shape);
    net.operator(name, &[input, diagonal], &[output], 90, Vec::new());
}
