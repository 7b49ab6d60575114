//! The custom operator TFLite_Detection_PostProcess, by NNAPI's DETECTION_POSTPROCESSING.

use nnburst_hal::{Operand, OperandType, OperationType};

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
        inputs.push(self.builder().int(most));
        inputs.push(self.builder().int(per_detection));
        inputs.push(self.builder().int(per_class));
        // No score is below 0 where none of its integers stands for less.
        let least = if self.is_positive(1) { score.max(0.0) } else { score };
        inputs.push(self.builder().float(narrow(least)));
        inputs.push(self.builder().float(narrow(overlap)));
        inputs.push(self.builder().boolean(false));
        let [most, per_detection] =
            [most, per_detection].map(|number| u32::try_from(number).unwrap_or(0));
        let count = most.checked_mul(per_detection).filter(|&count| count > 0);
        let count = count.ok_or_else(|| {
            format!("{most} detections of {per_detection} classes each are wanted")
        })?;
        let outputs = [
            self.output(0, Some(&[1, count, 4]))?,
            self.output(1, Some(&[1, count]))?,
            self.output(2, Some(&[1, count]))?,
        ];
        let out_number = self.output(3, Some(&[1]))?;
        // By class NNAPI has as many rows as detections, TFLite as many more as for other options.
        let rows = if is_regular { most } else { count };
        let [boxes, classes, scores] = match rows == count {
            true => outputs,
            false => [vec![1, rows, 4], vec![1, rows], vec![1, rows]]
                .map(|dims| self.builder().temporary(OperandType::TensorFloat32, dims)),
        };
        let int = OperandType::TensorInt32;
        let found = self.builder().temporary(int, vec![1, rows]);
        let number = self.builder().temporary(int, vec![1]);
        let results = [scores, boxes, found, number];
        self.emit(OperationType::DetectionPostprocessing, &inputs, &results);
        self.emit(OperationType::Cast, &[found], &[classes]);
        if per_detection == 1 || is_regular {
            self.emit(OperationType::Cast, &[number], &[out_number]);
        } else {
            // NNAPI counts rows, TFLite boxes, each of which has a row for each of its classes.
            let rows = self.builder().temporary(OperandType::TensorFloat32, vec![1]);
            self.emit(OperationType::Cast, &[number], &[rows]);
            let each = Operand::tensor(OperandType::TensorFloat32, vec![1]);
            #[expect(clippy::cast_precision_loss, reason = "classes are few")]
            let each = self.builder().made_constant(each, &(per_detection as f32).to_le_bytes());
            let none = self.builder().int(0);
            self.emit(OperationType::Div, &[rows, each, none], &[out_number]);
        }
        if rows != count {
            let missing = i32::try_from(count - rows).unwrap_or(i32::MAX);
            for (from, to) in [boxes, classes, scores].into_iter().zip(outputs) {
                let (own, rank) = if from == boxes { (&[0, 0][..], 3) } else { (&[][..], 2) };
                let borders = [&[0, 0, 0, missing], own].concat();
                let borders = self.builder().int_tensor(&borders, vec![rank, 2]);
                self.emit(OperationType::Pad, &[from, borders], &[to]);
            }
        }
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
