//! DETECTION_POSTPROCESSING: from scores and deltas of anchors to the detections of each image.
//!
//! Source: NNAPI, since HAL 1.2; FLOAT32 and FLOAT16. Class 0 is the background. Rows that no
//! detection fills are zero.

use std::sync::Mutex;

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{OpError, Shape, poll};

use super::boxes::{BestFirst, Corners, hard_nms};
use super::numbers::{Numbers, claim_run, read_operands};
use crate::lowering::{Io, Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::sort::sort_vec_by;
use crate::ops::support::plain;

pub(in crate::ops) static DETECTION_POSTPROCESSING: Op = Op { lower };

/// The rule by which detections are chosen.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Suppression for each class, at most so many of each.
    Regular { per_class: usize },
    /// Suppression by the best class of each anchor, then so many classes of each chosen one.
    Fast { classes: usize },
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    anchors: usize,
    classes: usize,
    delta_width: usize,
    /// Of y, x, height, width.
    scales: [f32; 4],
    mode: Mode,
    limit: usize,
    score_threshold: f32,
    iou_threshold: f32,
    /// The difference between a class and its label.
    label_offset: usize,
    isa: Isa,
}

/// One detection: its anchor, its class, its score.
#[derive(Clone, Copy, Debug, Default)]
struct Detection {
    anchor: usize,
    class: usize,
    score: f32,
}

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (scores, deltas, anchors) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let (&[batches, count, classes], &[delta_batches, delta_count, delta_width]) =
        (&scores.shape[..], &deltas.shape[..])
    else {
        let what = format!("scores of {:?}, deltas of {:?}", scores.shape, deltas.shape);
        return Err(OpError::rule(what).into());
    };
    if (delta_batches, delta_count) != (batches, count)
        || delta_width < 4
        || anchors.shape[..] != [count, 4]
        || classes < 2
    {
        let what = format!(
            "scores of {:?}, deltas of {:?}, anchors of {:?}",
            scores.shape, deltas.shape, anchors.shape
        );
        return Err(OpError::rule(what).into());
    }
    let mode = if op.bool(7)? {
        Mode::Regular { per_class: op.extent(10, 1)? }
    } else {
        Mode::Fast { classes: op.extent(9, 1)? }
    };
    let limit = op.extent(8, 1)?;
    let at_least_0 = |index: usize| -> Lowered<f32> {
        let value = op.f32(index)?;
        if value >= 0.0 {
            Ok(value)
        } else {
            Err(OpError::input(index, format!("is {value}")).into())
        }
    };
    let rules = Rules {
        anchors: count,
        classes,
        delta_width,
        scales: [positive(op, 3)?, positive(op, 4)?, positive(op, 5)?, positive(op, 6)?],
        mode,
        limit,
        score_threshold: at_least_0(11)?,
        iou_threshold: at_least_0(12)?,
        label_offset: usize::from(!op.bool(13)?),
        isa: op.isa(),
    };
    let rows = match mode {
        Mode::Regular { .. } => limit,
        Mode::Fast { classes } => limit.saturating_mul(classes),
    };
    op.set_output(0, Shape::new([batches, rows])?)?;
    op.set_output(1, Shape::new([batches, rows, 4])?)?;
    op.set_output(2, Shape::new([batches, rows])?)?;
    op.set_output(3, Shape::new([batches])?)?;
    let numbers = [Numbers::of(0, &scores)?, Numbers::of(1, &deltas)?, Numbers::of(2, &anchors)?];
    let out = [Numbers::of(0, &op.output(0)?)?, Numbers::of(1, &op.output(1)?)?];
    claim_run(op, &[&scores, &deltas, &anchors])?;
    // Kept between runs: memory from the system anew takes longer than the numbers. Runs at the
    // same time have their own.
    let kept = Mutex::new([const { Vec::new() }; 3]);
    op.emit(plain("detection_postprocessing", &scores.shape, 0), move |io: Io<'_>| {
        let (mut held, mut own) = (kept.try_lock().ok(), [const { Vec::new() }; 3]);
        let all = held.as_deref_mut().unwrap_or(&mut own);
        read_operands(&io, numbers, all)?;
        let [scores, deltas, anchors] = &*all;
        for batch in 0..batches {
            let scores = &scores[batch * count * classes..][..count * classes];
            let deltas = &deltas[batch * count * delta_width..][..count * delta_width];
            let boxes: Vec<Corners> = poll::each(0..count, 100)
                .map(|anchor| rules.decode(anchor, deltas, anchors))
                .collect();
            poll::work(64)?;
            let found = rules.detect(scores, &boxes)?;
            let int = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
            for row in poll::each(0..rows, 32) {
                let at = batch * rows + row;
                let detection = found.get(row);
                out[0].set(io.output_bytes(0), at, detection.map_or(0.0, |it| it.score));
                let corners = detection.map_or([0.0; 4], |it| boxes[it.anchor]);
                for (k, value) in corners.into_iter().enumerate() {
                    out[1].set(io.output_bytes(1), at * 4 + k, value);
                }
                let label = detection.map_or(0, |it| int(it.class - rules.label_offset));
                io.output::<i32>(2).set(at, label);
            }
            io.output::<i32>(3).set(batch, int(found.len().min(rows)));
        }
        Ok(())
    });
    Ok(())
}

fn positive(op: &OpBuilder<'_>, index: usize) -> Lowered<f32> {
    let value = op.f32(index)?;
    if value > 0.0 {
        Ok(value)
    } else {
        Err(OpError::input(index, format!("is a scale of {value}")).into())
    }
}

impl Rules {
    /// The box of an anchor `(center y, center x, height, width)`: `[y1, x1, y2, x2]`, not clipped.
    fn decode(&self, anchor: usize, deltas: &[f32], anchors: &[f32]) -> Corners {
        let delta = |k: usize| deltas[anchor * self.delta_width + k];
        let a = |k: usize| anchors[anchor * 4 + k];
        let [scale_y, scale_x, scale_h, scale_w] = self.scales;
        let y = a(0) + delta(0) * a(2) / scale_y;
        let x = a(1) + delta(1) * a(3) / scale_x;
        let half_h = (delta(2) / scale_h).exp() * a(2) / 2.0;
        let half_w = (delta(3) / scale_w).exp() * a(3) / 2.0;
        [y - half_h, x - half_w, y + half_h, x + half_w]
    }

    fn detect(&self, scores: &[f32], boxes: &[Corners]) -> Result<Vec<Detection>, String> {
        match self.mode {
            Mode::Regular { per_class } => self.detect_regular(scores, boxes, per_class),
            Mode::Fast { classes } => self.detect_fast(scores, boxes, classes),
        }
    }

    fn detect_regular(
        &self,
        scores: &[f32],
        boxes: &[Corners],
        per_class: usize,
    ) -> Result<Vec<Detection>, String> {
        let mut found: Vec<Detection> = Vec::new();
        for class in 1..self.classes {
            let of_class: Vec<f32> = poll::each(0..self.anchors, 4)
                .map(|anchor| scores[anchor * self.classes + class])
                .collect();
            poll::work(64)?;
            for anchor in self.suppress(&of_class, boxes, per_class)? {
                found.push(Detection { anchor, class, score: of_class[anchor] });
            }
        }
        sort_vec_by(&mut found, |a, b| b.score.total_cmp(&a.score))?;
        found.truncate(self.limit);
        Ok(found)
    }

    fn detect_fast(
        &self,
        scores: &[f32],
        boxes: &[Corners],
        classes: usize,
    ) -> Result<Vec<Detection>, String> {
        let foreground =
            |anchor: usize| &scores[anchor * self.classes + 1..(anchor + 1) * self.classes];
        let mut best = vec![f32::NEG_INFINITY; self.anchors];
        for (anchor, best) in best.iter_mut().enumerate() {
            for scores in foreground(anchor).chunks(poll::CHUNK) {
                poll::work(8 + scores.len() / 4)?;
                self.isa.run(Largest { scores, most: best });
            }
        }
        let mut found = Vec::new();
        for anchor in self.suppress(&best, boxes, self.limit)? {
            let scores = foreground(anchor);
            let order = BestFirst::new(scores, poll::each(0..scores.len(), 2).collect())?;
            let classes = order.take(classes);
            found.extend(classes.map(|at| Detection { anchor, class: at + 1, score: scores[at] }));
        }
        Ok(found)
    }

    fn suppress(
        &self,
        scores: &[f32],
        boxes: &[Corners],
        limit: usize,
    ) -> Result<Vec<usize>, String> {
        let candidates = poll::each(0..scores.len(), 2)
            .filter(|&anchor| scores[anchor] > self.score_threshold)
            .collect();
        hard_nms(scores, candidates, |anchor| boxes[anchor], self.iou_threshold, Some(limit))
    }
}

/// The largest of scores and of what is known already; NaN is none.
struct Largest<'a> {
    scores: &'a [f32],
    most: &'a mut f32,
}

impl Loop for Largest<'_> {
    #[inline(always)]
    fn run(self) {
        const LANES: usize = 16;
        let larger = |x: f32, most: f32| if x > most { x } else { most };
        let Some(last) = self.scores.last_chunk::<LANES>() else {
            *self.most = self.scores.iter().fold(*self.most, |most, &x| larger(x, most));
            return;
        };
        let mut lanes = [*self.most; LANES];
        // Those at the end that make no whole vector are looked at with some of the others again.
        for block in self.scores.as_chunks::<LANES>().0.iter().chain([last]) {
            for (lane, &x) in lanes.iter_mut().zip(block) {
                *lane = larger(x, *lane);
            }
        }
        *self.most = lanes.into_iter().fold(*self.most, |most, x| larger(x, most));
    }
}
