//! Results whose sizes follow from constants where the file has but an example of them, and rules
//! of TFLite's that NNAPI's namesakes do not have.

#[path = "common/bytes.rs"]
mod bytes;
#[path = "common/file.rs"]
mod file;
#[path = "common/plan.rs"]
mod plan;

use bytes::{bytes_of, bytes_of_ints, floats};
use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::{FlexNumber, TfliteFile, Value, flex_numbers};

const F32: TensorKind = TensorKind::Float32;
const I32: TensorKind = TensorKind::Int32;

/// A tensor of one element of which the file says that it may have more.
fn example(file: &mut TfliteFile, kind: TensorKind, rank: usize) -> i32 {
    let tensor = file.tensor("out", kind, &vec![1; rank]);
    file.tensor_fields(tensor, vec![(7, Value::ints(&vec![-1; rank]))]);
    tensor
}

#[test]
fn constants_say_how_large_a_result_is() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[3, 2]);
    let ids = file.int_constant("ids", &[3], &[1, 1, 0]);
    let segments = file.int_constant("segments", &[], &[3]);
    let sums = example(&mut file, F32, 2);
    file.operator("UNSORTED_SEGMENT_SUM", &[x, ids, segments], &[sums]);
    let places = file.int_constant("places", &[2], &[4, 1]);
    let extents = file.int_constant("extents", &[1], &[5]);
    let values = file.input("values", F32, &[2]);
    let zero = file.float_constant("zero", &[], &[0.0]);
    let dense = example(&mut file, F32, 1);
    file.operator("SPARSE_TO_DENSE", &[places, extents, values, zero], &[dense]);
    let [first, last, step] = [7, -3, -4].map(|value| file.int_constant("bound", &[], &[value]));
    let counted = example(&mut file, I32, 1);
    file.operator("RANGE", &[first, last, step], &[counted]);
    file.outputs(&[sums, dense, counted]);
    let imported = file::import(&file).unwrap();
    let dims: Vec<_> = imported.outputs.iter().map(|info| info.dims.clone()).collect();
    assert_eq!(dims, [vec![3, 2], vec![5], vec![3]]);
    let inputs = [bytes_of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), bytes_of(&[8.0, 9.0])];
    let outputs = file::outputs(&imported, &inputs, 0).unwrap();
    assert_eq!(floats(&outputs[0]), [5.0, 6.0, 4.0, 6.0, 0.0, 0.0]);
    assert_eq!(floats(&outputs[1]), [0.0, 9.0, 0.0, 0.0, 8.0]);
    assert_eq!(outputs[2], bytes_of_ints(&[7, 3, -1]));
}

#[test]
fn constants_of_five_dimensions_are_results() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 2, 1, 2, 1]);
    let y = file.tensor("y", F32, &[1, 2, 1, 2, 1]);
    file.operator("ZEROS_LIKE", &[x], &[y]);
    file.outputs(&[y]);
    let imported = file::import(&file).unwrap();
    let outputs = file::outputs(&imported, &[bytes_of(&[1.0; 4])], 0).unwrap();
    assert_eq!(floats(&outputs[0]), [0.0; 4]);
}

#[test]
fn blocks_have_one_dimension_too() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 5, 1]);
    let block = file.int_constant("block", &[1], &[2]);
    let borders = file.int_constant("borders", &[1, 2], &[0, 1]);
    let rows = file.tensor("rows", F32, &[2, 3, 1]);
    file.operator("SPACE_TO_BATCH_ND", &[x, block, borders], &[rows]);
    let y = file.tensor("y", F32, &[1, 5, 1]);
    file.operator("BATCH_TO_SPACE_ND", &[rows, block, borders], &[y]);
    file.outputs(&[rows, y]);
    let imported = file::import(&file).unwrap();
    let x = [1.0, 2.0, 3.0, 4.0, 5.0];
    let outputs = file::outputs(&imported, &[bytes_of(&x)], 0).unwrap();
    assert_eq!(floats(&outputs[0]), [1.0, 3.0, 5.0, 2.0, 4.0, 0.0]);
    assert_eq!(floats(&outputs[1]), x);
}

/// Old converters call signed bytes UINT8 where they compress a table.
#[test]
fn bytes_of_a_table_of_floats_are_signed() {
    for (kind, zero_point) in [(TensorKind::Uint8, 7), (TensorKind::Int8, 0)] {
        let mut file = TfliteFile::new();
        let ids = file.input("ids", I32, &[1]);
        let table = file.constant("table", kind, &[2, 2], &[1, 2, 0xFE, 4]);
        file.quantize(table, &[0.5], &[zero_point], 0);
        let y = file.tensor("y", F32, &[1, 2]);
        file.operator("EMBEDDING_LOOKUP", &[ids, table], &[y]);
        file.outputs(&[y]);
        let imported = file::import(&file).unwrap();
        let outputs = file::outputs(&imported, &[bytes_of_ints(&[1])], 0).unwrap();
        assert_eq!(floats(&outputs[0]), [-1.0, 2.0], "{kind:?}");
    }
}

/// Two boxes apart, each with its two best classes of two.
#[test]
fn detections_count_boxes_and_have_a_row_for_each_class() {
    for is_regular in [false, true] {
        let mut file = TfliteFile::new();
        let boxes = file.input("boxes", F32, &[1, 2, 4]);
        let scores = file.input("scores", F32, &[1, 2, 3]);
        let corners = [0.25, 0.25, 0.25, 0.25, 0.75, 0.75, 0.25, 0.25];
        let anchors = file.float_constant("anchors", &[2, 4], &corners);
        let number = |value| FlexNumber::Float(value);
        let options = flex_numbers(&[
            ("max_detections", FlexNumber::Int(2)),
            ("max_classes_per_detection", FlexNumber::Int(2)),
            ("detections_per_class", FlexNumber::Int(2)),
            ("use_regular_nms", FlexNumber::Int(i32::from(is_regular))),
            ("nms_score_threshold", number(0.1)),
            ("nms_iou_threshold", number(0.5)),
            ("num_classes", FlexNumber::Int(2)),
            ("y_scale", number(1.0)),
            ("x_scale", number(1.0)),
            ("h_scale", number(1.0)),
            ("w_scale", number(1.0)),
        ]);
        let shapes = [&[1, 4, 4][..], &[1, 4], &[1, 4], &[1]];
        let results = shapes.map(|shape| file.tensor("result", F32, shape));
        let given = [boxes, scores, anchors];
        file.custom_operator("TFLite_Detection_PostProcess", &given, &results, &options);
        file.outputs(&results);
        let imported = file::import(&file).unwrap();
        // Behind the background's.
        let scores = [0.0, 0.5, 0.25, 0.0, 0.125, 0.875];
        let inputs = [bytes_of(&[0.0; 8]), bytes_of(&scores)];
        let outputs = file::outputs(&imported, &inputs, 0).unwrap();
        let (found, scores) = match is_regular {
            false => (2.0, [0.875, 0.125, 0.5, 0.25]),
            true => (2.0, [0.875, 0.5, 0.0, 0.0]),
        };
        assert_eq!(floats(&outputs[2]), scores, "regular: {is_regular}");
        assert_eq!(floats(&outputs[3]), [found]);
        assert_eq!(outputs[0].len(), 4 * 4 * 4);
    }
}

/// Converters put a complex transform in place of a real one and leave it the other's length.
#[test]
fn extents_that_follow_go_before_those_of_a_signature() {
    let mut file = TfliteFile::new();
    let open = |file: &mut TfliteFile, kind: TensorKind, after: &[i32]| {
        let tensor = file.tensor("open", kind, &[&[1], after].concat());
        file.tensor_fields(tensor, vec![(7, Value::ints(&[&[-1], after].concat()))]);
        tensor
    };
    let x = file.input("x", F32, &[8]);
    let wanted = file.input("wanted", I32, &[2]);
    let rows = open(&mut file, F32, &[4]);
    file.operator("RESHAPE", &[x, wanted], &[rows]);
    let axis = file.int_constant("axis", &[], &[1]);
    let planes = open(&mut file, F32, &[1, 4]);
    file.operator("EXPAND_DIMS", &[rows, axis], &[planes]);
    let points = file.int_constant("points", &[2], &[1, 4]);
    let parts = open(&mut file, TensorKind::Complex64, &[1, 4]);
    file.operator("RFFT2D", &[planes, points], &[parts]);
    let squeezed = open(&mut file, TensorKind::Complex64, &[4]);
    let fields = vec![(0, Value::ints(&[1]))];
    file.operator_with("SQUEEZE", &[parts], &[squeezed], 30, fields);
    let lengths = open(&mut file, F32, &[4]);
    file.operator("COMPLEX_ABS", &[squeezed], &[lengths]);
    file.outputs(&[lengths]);
    let imported = file::import(&file).unwrap();
    let x = [1.0, 1.0, 1.0, 1.0, 2.0, 0.0, -2.0, 0.0];
    let inputs = [bytes_of(&x), bytes_of_ints(&[2, 4])];
    let outputs = file::outputs(&imported, &inputs, 24).unwrap();
    assert_eq!(floats(&outputs[0]), [4.0, 0.0, 0.0, 0.0, 4.0, 0.0]);
}
