//! Extents of results that are not those of the file, or that NNAPI has no padding for.

#[path = "common/bytes.rs"]
mod bytes;
#[path = "common/file.rs"]
mod file;
#[path = "common/plan.rs"]
mod plan;

use bytes::{bytes_of, bytes_of_ints, floats};
use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::{TfliteFile, Value};

const F32: TensorKind = TensorKind::Float32;
const I32: TensorKind = TensorKind::Int32;
const I16: TensorKind = TensorKind::Int16;

/// A transposed convolution of an image of 2 by 3 pixels by a filter of 2 by 3, three apart, to
/// these rows and columns.
fn spread(kind: TensorKind, asked: [i32; 2]) -> TfliteFile {
    const FILTER: [i8; 6] = [1, 2, 3, 4, 5, 6];
    let plane = |[height, width]: [i32; 2]| [1, height, width, 1];
    let mut file = TfliteFile::new();
    let x = file.input("x", kind, &plane([2, 3]));
    let y = file.tensor("y", kind, &plane(asked));
    let asked = file.int_constant("asked", &[4], &plane(asked));
    let (filter, bias) = if kind == F32 {
        let filter = file.float_constant("filter", &plane([2, 3]), &FILTER.map(f32::from));
        (filter, file.float_constant("bias", &[1], &[100.0]))
    } else {
        let filter = FILTER.map(i8::cast_unsigned);
        let filter = file.constant("filter", TensorKind::Int8, &plane([2, 3]), &filter);
        let bias = file.constant("bias", TensorKind::Int64, &[1], &100i64.to_le_bytes());
        [x, filter, y].iter().for_each(|&it| file.quantize(it, &[1.0], &[0], 0));
        (filter, bias)
    };
    let fields = vec![(0, Value::I8(1)), (1, Value::I32(3)), (2, Value::I32(3))];
    file.operator_with("TRANSPOSE_CONV", &[asked, filter, x, bias], &[y], 49, fields);
    file.outputs(&[y]);
    file
}

#[test]
fn transposed_convolutions_may_end_in_rows_and_columns_without_products() {
    const IMAGE: [i16; 6] = [1, -2, 3, 4, 5, -6];
    for [rows, columns] in [[5, 9], [6, 9], [7, 10], [5, 11]] {
        let of = |y: i16, x: i16| {
            let tap = if y % 3 < 2 && x < 9 { y % 3 * 3 + x % 3 + 1 } else { 0 };
            let pixel = IMAGE.get(usize::try_from(y / 3 * 3 + x / 3).unwrap());
            100 + pixel.filter(|_| y < 5).map_or(0, |pixel| pixel * tap)
        };
        let want: Vec<i16> = (0..rows).flat_map(|y| (0..columns).map(move |x| of(y, x))).collect();
        let asked = [rows, columns].map(i32::from);
        let imported = file::import(&spread(F32, asked)).unwrap();
        let outputs = file::outputs(&imported, &[bytes_of(&IMAGE.map(f32::from))], 0).unwrap();
        let wide: Vec<f32> = want.iter().map(|&x| f32::from(x)).collect();
        assert_eq!(floats(&outputs[0]), wide, "{asked:?}");
        let imported = file::import(&spread(I16, asked)).unwrap();
        let image = IMAGE.map(i16::to_le_bytes).concat();
        let outputs = file::outputs(&imported, &[image], 0).unwrap();
        assert_eq!(outputs[0], want.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    }
}

/// The interpreter computes all shapes but those of inputs and constants.
#[test]
fn shapes_that_a_file_has_of_results_need_not_be_theirs() {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 1, 2, 1]);
    let size = file.int_constant("size", &[2], &[2, 4]);
    let wide = file.tensor("wide", F32, &[1, 1, 1, 1]);
    file.operator_with("RESIZE_NEAREST_NEIGHBOR", &[x, size], &[wide], 74, Vec::new());
    let order = file.int_constant("order", &[4], &[0, 3, 1, 2]);
    let turned = file.tensor("turned", F32, &[1, 4, 2, 1]);
    file.operator("TRANSPOSE", &[wide, order], &[turned]);
    let extents = file.int_constant("extents", &[1], &[4]);
    let two = file.float_constant("two", &[], &[2.0]);
    let twos = file.tensor("twos", F32, &[1]);
    file.operator("FILL", &[extents, two], &[twos]);
    let y = file.tensor("y", F32, &[1, 1, 1, 1]);
    file.operator_with("MUL", &[turned, twos], &[y], 21, Vec::new());
    file.outputs(&[y]);
    let imported = file::import(&file).unwrap();
    assert_eq!(imported.outputs[0].dims, [1, 1, 2, 4]);
    let outputs = file::outputs(&imported, &[bytes_of(&[1.0, 3.0])], 0).unwrap();
    assert_eq!(floats(&outputs[0]), [2.0, 2.0, 6.0, 6.0, 2.0, 2.0, 6.0, 6.0]);
}

#[test]
fn values_that_come_with_a_run_say_how_large_a_result_is() {
    let mut file = TfliteFile::new();
    let extents = file.input("extents", I32, &[2]);
    let two = file.float_constant("two", &[], &[2.0]);
    let twos = file.tensor("twos", F32, &[1, 1]);
    file.operator("FILL", &[extents, two], &[twos]);
    file.outputs(&[twos]);
    let imported = file::import(&file).unwrap();
    let outputs = file::outputs(&imported, &[bytes_of_ints(&[2, 3])], 24).unwrap();
    assert_eq!(floats(&outputs[0]), [2.0; 6]);
}

/// As converters leave them around moves that they have put in.
#[test]
fn stored_values_are_moved_from_one_scale_to_another_as_they_are() {
    const I8: TensorKind = TensorKind::Int8;
    let mut file = TfliteFile::new();
    let x = file.input("x", I8, &[1, 2, 3]);
    let [begin, size] = [[0, 1, 0], [1, 1, 3]].map(|it| file.int_constant("range", &[3], &it));
    let row = file.tensor("row", I8, &[1, 1, 3]);
    file.operator("SLICE", &[x, begin, size], &[row]);
    let order = file.int_constant("order", &[3], &[2, 0, 1]);
    let y = file.tensor("y", I8, &[3, 1, 1]);
    file.operator("TRANSPOSE", &[row, order], &[y]);
    for (tensor, scale, zero) in [(x, 0.5, 3), (row, 0.25, -7), (y, 2.0, 0)] {
        file.quantize(tensor, &[scale], &[zero], 0);
    }
    file.outputs(&[y]);
    let imported = file::import(&file).unwrap();
    let outputs = file::outputs(&imported, &[vec![1, 2, 3, 4, 250, 6]], 0).unwrap();
    assert_eq!(outputs[0], [4, 250, 6]);
}

/// MINIMUM compares what is stored, too, whatever it stands for.
#[test]
fn the_lesser_of_two_scales_is_what_is_stored_as_less() {
    const I8: TensorKind = TensorKind::Int8;
    let mut file = TfliteFile::new();
    let [a, b] = ["a", "b"].map(|name| file.input(name, I8, &[1, 3]));
    let y = file.tensor("y", I8, &[1, 3]);
    file.operator("MINIMUM", &[a, b], &[y]);
    for (tensor, scale, zero) in [(a, 0.5, 3), (b, 0.25, -7), (y, 2.0, 0)] {
        file.quantize(tensor, &[scale], &[zero], 0);
    }
    file.outputs(&[y]);
    let imported = file::import(&file).unwrap();
    let outputs = file::outputs(&imported, &[vec![1, 2, 250], vec![2, 255, 9]], 0).unwrap();
    assert_eq!(outputs[0], [1, 255, 250]);
}
