//! GENERATE_PROPOSALS: regions from anchors, deltas and scores.
//!
//! Source: NNAPI, since HAL 1.2; signed 8-bit since 1.3. A limit of 0 or less is none, before and
//! after suppression, as documented; the reference selects nothing for a later limit of 0.

use nnburst_kernels::tensor::poll::{self, Halted};
use nnburst_kernels::tensor::{OpError, Shape};

use super::boxes::{by_score, hard_nms, transform};
use super::numbers::{Numbers, claim_run, operands, pack_i32};
use crate::lowering::{DynamicOutput, Io, Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::support::{Image, plain};

pub(in crate::ops) static GENERATE_PROPOSALS: Op = Op { lower };

#[derive(Clone, Copy, Debug)]
struct Rules {
    scores: Image,
    deltas: Image,
    stride_h: f32,
    stride_w: f32,
    before: Option<usize>,
    after: Option<usize>,
    iou_threshold: f32,
    min_size: f32,
}

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (scores, deltas, anchors, info) = (op.input(0)?, op.input(1)?, op.input(2)?, op.input(3)?);
    let nchw = op.bool(10)?;
    let limit = |index: usize| -> Lowered<Option<usize>> {
        Ok(usize::try_from(op.i32(index)?).ok().filter(|&limit| limit > 0))
    };
    let rules = Rules {
        scores: Image::of(0, &scores.shape, nchw)?,
        deltas: Image::of(1, &deltas.shape, nchw)?,
        stride_h: op.f32(4)?,
        stride_w: op.f32(5)?,
        before: limit(6)?,
        after: limit(7)?,
        iou_threshold: op.f32(8)?,
        min_size: op.f32(9)?,
    };
    rules.check(&anchors.shape, &info.shape)?;
    let numbers = [
        Numbers::of(0, &scores)?,
        Numbers::of(1, &deltas)?,
        Numbers::of(2, &anchors)?,
        Numbers::of(3, &info)?,
    ];
    let rois_out = Numbers::of(1, &op.output(1)?)?;
    claim_run(op, &[&scores, &deltas, &anchors, &info])?;
    op.dynamic(plain("generate_proposals", &scores.shape, 0), move |io: Io<'_>| {
        let [scores, deltas, anchors, info]: [Vec<f32>; 4] = operands(&io, numbers)?;
        let (mut kept, mut rois, mut batches) = (Vec::new(), Vec::new(), Vec::new());
        for batch in 0..rules.scores.batches {
            let info = &info[batch * 2..][..2];
            poll::work(64)?;
            let (scores, boxes) = rules.candidates(batch, &scores, &deltas, &anchors, info)?;
            for at in rules.propose(&scores, &boxes, info[0], info[1])? {
                kept.push(scores[at]);
                rois.extend(boxes[at]);
                batches.push(i32::try_from(batch).unwrap_or(i32::MAX));
            }
        }
        let shape = |extents: Vec<usize>| Shape::new(extents).map_err(|error| error.to_string());
        let count = kept.len();
        Ok(vec![
            DynamicOutput { shape: shape(vec![count])?, bytes: numbers[0].pack(&kept) },
            DynamicOutput { shape: shape(vec![count, 4])?, bytes: rois_out.pack(&rois) },
            DynamicOutput { shape: shape(vec![count])?, bytes: pack_i32(&batches) },
        ])
    })
}

impl Rules {
    fn check(&self, anchors: &Shape, info: &Shape) -> Result<(), OpError> {
        let Image { batches, height, width, channels, .. } = self.scores;
        let deltas = (self.deltas.batches, self.deltas.height, self.deltas.width);
        if deltas != (batches, height, width) || self.deltas.channels != channels * 4 {
            let what = format!("deltas {:?} for scores {:?}", self.deltas, self.scores);
            return Err(OpError::rule(what));
        }
        if anchors[..] != [channels, 4] || info[..] != [batches, 2] {
            let what =
                format!("anchors of {anchors:?}, image info of {info:?}, scores {:?}", self.scores);
            return Err(OpError::rule(what));
        }
        Ok(())
    }

    /// Scores and boxes of one image, in the order (row, column, anchor).
    fn candidates(
        &self,
        batch: usize,
        scores: &[f32],
        deltas: &[f32],
        anchors: &[f32],
        info: &[f32],
    ) -> Result<(Vec<f32>, Vec<[f32; 4]>), Halted> {
        let (height, width) = (info[0], info[1]);
        let (mut own_scores, mut boxes) = (Vec::new(), Vec::new());
        for y in poll::each(0..self.scores.height, 8) {
            for x in poll::each(0..self.scores.width, 8) {
                #[expect(clippy::cast_precision_loss, reason = "positions of a feature map")]
                let (dx, dy) = (x as f32 * self.stride_w, y as f32 * self.stride_h);
                for anchor in poll::each(0..self.scores.channels, 100) {
                    own_scores.push(scores[self.scores.at(batch, y, x, anchor)]);
                    let a = |k: usize| anchors[anchor * 4 + k];
                    let shifted = [a(0) + dx, a(1) + dy, a(2) + dx, a(3) + dy];
                    let delta = |k: usize| deltas[self.deltas.at(batch, y, x, anchor * 4 + k)];
                    boxes.push(transform(shifted, std::array::from_fn(delta), height, width));
                }
            }
        }
        poll::work(0).map(|()| (own_scores, boxes))
    }

    fn propose(
        &self,
        scores: &[f32],
        boxes: &[[f32; 4]],
        height: f32,
        width: f32,
    ) -> Result<Vec<usize>, String> {
        let mut order: Vec<usize> = poll::each(0..scores.len(), 2).collect();
        if let Some(limit) = self.before.filter(|&limit| limit < order.len()) {
            by_score(scores, &mut order)?;
            order.truncate(limit);
        }
        poll::work(0)?;
        order.retain(|&at| {
            if poll::work(8).is_err() {
                return false;
            }
            let [x1, y1, x2, y2] = boxes[at];
            let (center_x, center_y) = (f32::midpoint(x1, x2), f32::midpoint(y1, y2));
            x2 - x1 > self.min_size
                && y2 - y1 > self.min_size
                && center_x < width
                && center_y < height
        });
        hard_nms(scores, order, |at| boxes[at], self.iou_threshold, self.after)
    }
}
