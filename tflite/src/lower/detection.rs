//! The custom operator TFLite_Detection_PostProcess, by NNAPI's DETECTION_POSTPROCESSING.

use nnburst_hal::{OperandType, OperationType};

use super::{Lower, Lowered};
use crate::operand::is_quantized;
use crate::schema::{FlexMap, TensorKind};

/// The operator's name in files.
pub(super) const NAME: &str = "TFLite_Detection_PostProcess";

impl Lower<'_, '_> {
    /// Boxes, scores and anchors in; boxes, classes, scores and their number out, all FLOAT32.
    pub(super) fn detection_postprocess(&mut self) -> Lowered {
        let options = FlexMap::root(self.op.custom).ok_or("its options are broken")?;
        let real =
            |name: &str| options.number(name).ok_or_else(|| format!("option {name} is missing"));
        let number = |name: &str| real(name).map(whole);
        let default = |name: &str, value: i32| options.number(name).map_or(value, whole);
        let is_regular = default("use_regular_nms", 0) != 0;
        let most = number("max_detections")?;
        let per_detection = number("max_classes_per_detection")?;
        let per_class = default("detections_per_class", 100);
        let [y, x, h, w] = ["y_scale", "x_scale", "h_scale", "w_scale"].map(real);
        let scales = [y?, x?, h?, w?];
        let [score, overlap] = [real("nms_score_threshold")?, real("nms_iou_threshold")?];
        let classes = number("num_classes")?;
        let boxes = self.floats(0)?;
        let scores = self.floats(1)?;
        let anchors = self.floats(2)?;
        let columns = self.known_dims(scores)?.last().copied().unwrap_or(0);
        if u32::try_from(classes).ok().and_then(|it| it.checked_add(1)) != Some(columns) {
            return Err(format!("{columns} scores for {classes} classes and the background").into());
        }
        let mut inputs = vec![scores, boxes, anchors];
        for scale in scales {
            inputs.push(self.builder().float(narrow(scale)));
        }
        inputs.push(self.builder().boolean(is_regular));
        inputs.push(self.builder().int(most.saturating_mul(per_detection)));
        inputs.push(self.builder().int(per_detection));
        inputs.push(self.builder().int(per_class));
        // No score is below 0 where none of its integers stands for less.
        let least = if self.is_positive(1) { score.max(0.0) } else { score };
        inputs.push(self.builder().float(narrow(least)));
        inputs.push(self.builder().float(narrow(overlap)));
        inputs.push(self.builder().boolean(false));
        let count = most.saturating_mul(per_detection);
        let count = u32::try_from(count).ok().filter(|&count| count > 0);
        let count = count.ok_or_else(|| format!("{most} detections are wanted"))?;
        let out_boxes = self.output(0, Some(&[1, count, 4]))?;
        let out_classes = self.output(1, Some(&[1, count]))?;
        let out_scores = self.output(2, Some(&[1, count]))?;
        let out_number = self.output(3, Some(&[1]))?;
        let int = OperandType::TensorInt32;
        let found = self.builder().temporary(int, vec![1, count]);
        let number = self.builder().temporary(int, vec![1]);
        let outputs = [out_scores, out_boxes, found, number];
        self.emit(OperationType::DetectionPostprocessing, &inputs, &outputs);
        self.emit(OperationType::Cast, &[found], &[out_classes]);
        self.emit(OperationType::Cast, &[number], &[out_number]);
        Ok(())
    }

    /// Returns whether an argument's integers stand for no negative numbers.
    fn is_positive(&self, argument: usize) -> bool {
        self.tensor(argument).is_ok_and(|tensor| {
            let zero = tensor.quantization.zero_points.first().copied();
            match tensor.kind {
                TensorKind::Uint8 => zero == Some(0),
                TensorKind::Int8 => zero == Some(-128),
                _ => false,
            }
        })
    }

    /// An argument as FLOAT32.
    fn floats(&mut self, argument: usize) -> Lowered<u32> {
        let value = self.input(argument)?;
        if !is_quantized(self.kind(value)) {
            return Ok(value);
        }
        let dims = self.import.builder.dims(value).to_vec();
        let real = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(OperationType::Dequantize, &[value], &[real]);
        Ok(real)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturating, and NaN is 0")]
fn whole(value: f64) -> i32 {
    value as i32
}

#[expect(clippy::cast_possible_truncation, reason = "FLOAT32 is what is asked for")]
fn narrow(value: f64) -> f32 {
    value as f32
}
