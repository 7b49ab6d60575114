//! BOX_WITH_NMS_LIMIT: the best boxes of each class of each image, by hard or soft suppression.
//!
//! Source: NNAPI, since HAL 1.2; signed 8-bit scores since 1.3. Within an image the result is
//! ordered by class, then by falling score, as the reference's is.

use nnburst_kernels::tensor::poll::{self, Halted};
use nnburst_kernels::tensor::{AlignedBytes, OpError, Shape};

use super::boxes::{Corners, OVERLAP_NS, by_score, corners, overlap};
use super::numbers::{Numbers, claim_run, pack_i32};
use crate::lowering::{DynamicOutput, Io, Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::sort::sort_vec_by;
use crate::ops::support::plain;

pub(in crate::ops) static BOX_WITH_NMS_LIMIT: Op = Op { lower };

/// The rule by which a chosen box weakens those it overlaps.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    Hard,
    Linear,
    Gaussian,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    classes: usize,
    score_threshold: f32,
    limit: Option<usize>,
    kernel: Kernel,
    iou_threshold: f32,
    sigma: f32,
    nms_score_threshold: f32,
}

/// A box that was chosen.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    row: usize,
    class: usize,
    score: f32,
}

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (scores, boxes, batches) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let &[rows, classes] = &scores.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 2", scores.shape)).into());
    };
    if classes < 2 {
        return Err(OpError::input(
            0,
            format!("has {classes} classes, not the background and more"),
        )
        .into());
    }
    if boxes.shape[..] != [rows, classes * 4] || batches.shape[..] != [rows] {
        let what = format!(
            "scores of {:?}, boxes of {:?}, indexes of {:?}",
            scores.shape, boxes.shape, batches.shape
        );
        return Err(OpError::rule(what).into());
    }
    let kernel = match op.i32(5)? {
        0 => Kernel::Hard,
        1 => Kernel::Linear,
        2 => Kernel::Gaussian,
        other => return Err(OpError::input(5, format!("{other} is no kernel")).into()),
    };
    let rules = Rules {
        classes,
        score_threshold: op.f32(3)?,
        limit: usize::try_from(op.i32(4)?).ok(),
        kernel,
        iou_threshold: op.f32(6)?,
        sigma: op.f32(7)?,
        nms_score_threshold: op.f32(8)?,
    };
    let (score_numbers, box_numbers) = (Numbers::of(0, &scores)?, Numbers::of(1, &boxes)?);
    let box_element = boxes.kind.element_bytes().unwrap_or(1);
    claim_run(op, &[&scores, &boxes, &batches])?;
    op.dynamic(plain("box_with_nms_limit", &scores.shape, 0), move |io: Io<'_>| {
        let scores = score_numbers.to_vec(io.input_bytes(0))?;
        let raw_boxes = io.input_bytes(1).to_vec();
        let boxes = box_numbers.to_vec(nnburst_hal::View::of(&raw_boxes))?;
        let batches = io.input::<i32>(2).to_vec();
        let chosen = rules.choose_all(scores, &boxes, &batches)?;
        let column = |of: &dyn Fn(&Chosen) -> i32| chosen.iter().map(of).collect::<Vec<_>>();
        let int = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        let mut picked = Vec::with_capacity(chosen.len() * 4 * box_element);
        for it in poll::each(chosen.iter(), 64) {
            // Copied, not computed again: the quantised form keeps its very bits.
            let at = (it.row * rules.classes + it.class) * 4 * box_element;
            picked.extend_from_slice(raw_boxes.get(at..at + 4 * box_element).unwrap_or_default());
        }
        let kept: Vec<f32> = chosen.iter().map(|it| it.score).collect();
        let shape = |extents: Vec<usize>| Shape::new(extents).map_err(|error| error.to_string());
        let count = chosen.len();
        Ok(vec![
            DynamicOutput { shape: shape(vec![count])?, bytes: score_numbers.pack(&kept) },
            DynamicOutput { shape: shape(vec![count, 4])?, bytes: AlignedBytes::copy_of(&picked) },
            DynamicOutput {
                shape: shape(vec![count])?,
                bytes: pack_i32(&column(&|it| int(it.class))),
            },
            DynamicOutput {
                shape: shape(vec![count])?,
                bytes: pack_i32(&column(&|it| batches.get(it.row).copied().unwrap_or(0))),
            },
        ])
    })
}

impl Rules {
    /// Images follow each other in the order of the input: an image is a run of equal batch
    /// indexes.
    fn choose_all(
        &self,
        mut scores: Vec<f32>,
        boxes: &[f32],
        batches: &[i32],
    ) -> Result<Vec<Chosen>, String> {
        let mut all = Vec::new();
        let mut first = 0;
        for image in batches.chunk_by(|a, b| a == b) {
            let rows = first..first + image.len();
            first = rows.end;
            let mut chosen: Vec<Chosen> = Vec::new();
            for class in 1..self.classes {
                self.choose(&mut scores, boxes, rows.clone(), class, &mut chosen)?;
            }
            if let Some(limit) = self.limit.filter(|&limit| chosen.len() > limit) {
                let scores: Vec<f32> = chosen.iter().map(|it| it.score).collect();
                let mut order: Vec<usize> = (0..chosen.len()).collect();
                by_score(&scores, &mut order)?;
                order.truncate(limit);
                // Back into the order of classes; within one, scores already fall.
                sort_vec_by(&mut order, usize::cmp)?;
                chosen = order.into_iter().map(|at| chosen[at]).collect();
            }
            all.extend(chosen);
        }
        Ok(all)
    }

    /// The boxes of one class of one image, by falling score. Weakened scores stay weakened.
    fn choose(
        &self,
        scores: &mut [f32],
        boxes: &[f32],
        rows: std::ops::Range<usize>,
        class: usize,
        chosen: &mut Vec<Chosen>,
    ) -> Result<(), Halted> {
        let at = |row: usize| row * self.classes + class;
        let mut candidates: Vec<usize> =
            poll::each(rows, 8).filter(|&row| scores[at(row)] > self.score_threshold).collect();
        let mut taken = 0;
        while !candidates.is_empty() && self.limit.is_none_or(|limit| taken < limit) {
            poll::work(32 + candidates.len() / 8)?;
            let best = poll::each(candidates.iter().enumerate(), 2)
                .reduce(
                    |best, next| {
                        if scores[at(*next.1)] > scores[at(*best.1)] { next } else { best }
                    },
                )
                .map_or(0, |(position, _)| position);
            // The order of the others stays: the first of equals is chosen next.
            let row = candidates.remove(best);
            let corners_of = |row: usize| -> Corners { corners(boxes, at(row)) };
            chosen.push(Chosen { row, class, score: scores[at(row)] });
            taken += 1;
            candidates.retain(|&other| {
                // What goes wrong here is noticed before the next is chosen.
                if poll::work(OVERLAP_NS).is_err() {
                    return false;
                }
                let factor = self.weaken(overlap(corners_of(row), corners_of(other)));
                scores[at(other)] *= factor;
                scores[at(other)] >= self.nms_score_threshold
            });
        }
        poll::work(0)
    }

    fn weaken(&self, iou: f32) -> f32 {
        match self.kernel {
            Kernel::Hard if iou < self.iou_threshold => 1.0,
            Kernel::Hard => 0.0,
            Kernel::Linear if iou < self.iou_threshold => 1.0,
            Kernel::Linear => 1.0 - iou,
            Kernel::Gaussian => (-iou * iou / self.sigma).exp(),
        }
    }
}
