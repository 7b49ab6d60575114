//! A model's results as Arrow arrays.

use std::sync::Arc;

use dora_node_api::arrow_v59::array::{
    ArrayRef, Float32Array, StringArray, StructArray, UInt32Array,
};
use dora_node_api::arrow_v59::datatypes::Field;
use dora_node_api::{DoraArray, IntoArrow, MetadataParameters, Parameter};
use nnburst::f16;
use nnburst::hal::OperandType;
use nnburst_pictures::{Class, Detection, Keypoint, NAMES, Results, label};
use nnburst_tflite::TensorInfo;

use crate::stamp::{integer, set};

/// The extents of a tensor or a mask.
pub(crate) const SHAPE: &str = "shape";
/// The name of the task that results are of.
pub(crate) const TASK: &str = "task";

/// The results as an array, and their parameters; `None` where there is nothing but tensors.
///
/// | task | element |
/// |---|---|
/// | `classification` | `class` u32, `label` string, `score` f32 |
/// | `detection` | those, and `left`, `top`, `right`, `bottom` f32 as fractions of the sides |
/// | `pose` | `class` (the part) u32, `label`, `score`, `x`, `y` f32 as fractions |
/// | `segmentation` | the class of a pixel, u8; `shape` is height and width |
pub(crate) fn results(
    results: &Results,
    labels: &[String],
    parameters: &mut MetadataParameters,
) -> Option<DoraArray> {
    set(parameters, TASK, Parameter::String(results.task().to_owned()));
    Some(match results {
        Results::Classes(classes) => table(of_classes(classes, labels)),
        Results::Boxes(boxes) => table(of_boxes(boxes, labels)),
        Results::Pose(points) => table(of_points(points)),
        Results::Mask(mask) => {
            let shape = vec![i64::from(mask.height), i64::from(mask.width)];
            set(parameters, SHAPE, Parameter::ListInt(shape));
            mask.classes.clone().into_arrow()
        }
        Results::Tensors => return None,
    })
}

type Column = (&'static str, ArrayRef);

fn table(columns: Vec<Column>) -> DoraArray {
    let column = |(name, values): Column| {
        let field = Field::new(name, values.data_type().clone(), false);
        (Arc::new(field), values)
    };
    DoraArray::from_array(StructArray::from(columns.into_iter().map(column).collect::<Vec<_>>()))
}

fn of_classes(classes: &[Class], labels: &[String]) -> Vec<Column> {
    scored(classes.iter().map(|found| (found.index, label(labels, found.index), found.score)))
}

fn of_boxes(boxes: &[Detection], labels: &[String]) -> Vec<Column> {
    let mut columns =
        scored(boxes.iter().map(|found| (found.class, label(labels, found.class), found.score)));
    columns.push(("left", floats(boxes.iter().map(|found| found.left))));
    columns.push(("top", floats(boxes.iter().map(|found| found.top))));
    columns.push(("right", floats(boxes.iter().map(|found| found.right))));
    columns.push(("bottom", floats(boxes.iter().map(|found| found.bottom))));
    columns
}

fn of_points(points: &[Keypoint]) -> Vec<Column> {
    let name = |part: usize| NAMES.get(part).copied().unwrap_or_default().to_owned();
    let mut columns = scored(points.iter().map(|it| (it.part, name(it.part), it.score)));
    columns.push(("x", floats(points.iter().map(|point| point.x))));
    columns.push(("y", floats(points.iter().map(|point| point.y))));
    columns
}

fn scored(found: impl Iterator<Item = (usize, String, f64)> + Clone) -> Vec<Column> {
    let number = |class: usize| u32::try_from(class).unwrap_or(u32::MAX);
    let classes: UInt32Array = found.clone().map(|(class, ..)| Some(number(class))).collect();
    let labels: StringArray = found.clone().map(|(_, label, _)| Some(label)).collect();
    #[expect(clippy::cast_possible_truncation, reason = "scores are single-precision values")]
    let scores = floats(found.map(|(.., score)| score as f32));
    vec![("class", Arc::new(classes)), ("label", Arc::new(labels)), ("score", scores)]
}

fn floats(values: impl Iterator<Item = f32>) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(values))
}

/// The bytes of a tensor as an array of its type, and its parameters: `shape`, and `scale` and
/// `zero_point` where it is quantised.
pub(crate) fn tensor(
    info: &TensorInfo,
    bytes: &[u8],
    parameters: &mut MetadataParameters,
) -> DoraArray {
    let shape = info.dims.iter().map(|&extent| i64::from(extent)).collect();
    set(parameters, SHAPE, Parameter::ListInt(shape));
    if info.scale != 0.0 {
        set(parameters, "scale", Parameter::Float(f64::from(info.scale)));
        set(parameters, "zero_point", integer(info.zero_point));
    }
    let pairs = || bytes.as_chunks::<2>().0.iter().copied();
    let fours = || bytes.as_chunks::<4>().0.iter().copied();
    match info.kind {
        OperandType::TensorFloat32 => {
            fours().map(f32::from_le_bytes).collect::<Vec<_>>().into_arrow()
        }
        OperandType::TensorInt32 => {
            fours().map(i32::from_le_bytes).collect::<Vec<_>>().into_arrow()
        }
        OperandType::TensorFloat16 => {
            // As single precision: few who read Arrow have halves.
            let values = pairs().map(|half| f16::from_le_bytes(half).to_f32());
            values.collect::<Vec<_>>().into_arrow()
        }
        OperandType::TensorQuant16Asymm => {
            pairs().map(u16::from_le_bytes).collect::<Vec<_>>().into_arrow()
        }
        OperandType::TensorQuant16Symm => {
            pairs().map(i16::from_le_bytes).collect::<Vec<_>>().into_arrow()
        }
        OperandType::TensorQuant8AsymmSigned | OperandType::TensorQuant8Symm => {
            bytes.iter().map(|byte| byte.cast_signed()).collect::<Vec<_>>().into_arrow()
        }
        _ => bytes.to_vec().into_arrow(),
    }
}

#[cfg(test)]
mod tests {
    use dora_node_api::arrow_v59::array::Array;
    use dora_node_api::arrow_v59::datatypes::DataType;

    use super::*;

    fn fields(array: &DoraArray) -> Vec<(String, DataType)> {
        let DataType::Struct(fields) = array.as_array().data_type().clone() else { return vec![] };
        fields.iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    }

    #[test]
    fn results_are_tables() {
        let mut parameters = MetadataParameters::new();
        let classes = Results::Classes(vec![Class { index: 1, score: 0.5 }]);
        let labels = ["cat".to_owned(), "dog".to_owned()];
        let array = results(&classes, &labels, &mut parameters).unwrap();
        assert_eq!(parameters.get(TASK), Some(&Parameter::String("classification".into())));
        let names: Vec<_> = fields(&array).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["class", "label", "score"]);
        let table = array.as_array().as_any().downcast_ref::<StructArray>().unwrap();
        let labels = table.column_by_name("label").unwrap();
        assert_eq!(labels.as_any().downcast_ref::<StringArray>().unwrap().value(0), "dog");
        let none = results(&Results::Boxes(vec![]), &[], &mut parameters).unwrap();
        assert_eq!((none.len(), fields(&none).len()), (0, 7), "nothing found is no error");
        assert!(results(&Results::Tensors, &[], &mut parameters).is_none());
    }

    #[test]
    fn tensors_keep_type_shape_and_quantisation() {
        let mut parameters = MetadataParameters::new();
        let mut info = TensorInfo {
            name: "scores".into(),
            tensor: 0,
            kind: OperandType::TensorQuant8AsymmSigned,
            file_kind: nnburst_tflite::TensorKind::Int8,
            dims: vec![1, 2],
            scale: 0.5,
            zero_point: -3,
        };
        let array = tensor(&info, &[255, 1], &mut parameters);
        assert_eq!(<&[i8]>::try_from(&array).unwrap(), [-1, 1]);
        assert_eq!(parameters.get(SHAPE), Some(&Parameter::ListInt(vec![1, 2])));
        assert_eq!(parameters.get("zero_point"), Some(&Parameter::Integer(-3)));
        (info.kind, info.scale) = (OperandType::TensorFloat16, 0.0);
        let array = tensor(&info, &f16::from_f32(1.5).to_le_bytes(), &mut parameters);
        assert_eq!(<&[f32]>::try_from(&array).unwrap(), [1.5]);
    }
}
