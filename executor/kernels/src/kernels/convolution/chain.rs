//! Convolutions one behind the other, some lines at a time, so that what lies between them stays in
//! the cache.
//!
//! ```text
//!   image ──expand──► wide lines ──depthwise──► wide lines ──project──► output (+ residual)
//!                     a few, moved up as            a few
//!                     the window goes down
//! ```
//!
//! Of an inverted residual the wide activation is several times the size of L2, and is written,
//! read three times and written again. Here it exists a band at a time. Every stage computes what
//! it would compute alone, bit by bit; nothing is computed twice but the lines that bands of
//! different threads share.

use std::ops::Range;
use std::sync::Arc;

use nnburst_hal::{View, ViewMut};

use crate::kernels::lines::Lines;
use crate::kernels::spans::{Along, each_span};
use crate::tensor::rows::{Pitched, Rows};
use crate::tensor::{In, Out};

/// Adds the residual: `(lines of the result, lines of the residual, where to)`, the first and the
/// last the same.
pub type Combine = Arc<dyn Fn(View<'_>, View<'_>, ViewMut<'_>) -> Result<(), String> + Send + Sync>;

/// Most stages of a chain.
pub const MAX_STAGES: usize = 3;

/// Bytes for all that lies between the stages: with the weights they take most of an L2 of
/// 1 MiB.
const BUDGET: usize = 384 << 10;

/// Bytes of weights that stay in L2 beside those.
const STAYING: usize = 512 << 10;

/// Stages, each of which reads what the one before wrote.
#[derive(Debug)]
pub struct Chain {
    stages: Vec<Stage>,
    /// Lines of the last stage that are computed at a time.
    band: usize,
    /// Bytes of the stages' own scratch memory, ahead of the lines that lie between.
    own_scratch: usize,
}

#[derive(Debug)]
struct Stage {
    kernel: Arc<dyn Lines>,
    line_bytes: usize,
    /// The place of its lines in the scratch memory, and their number; unused in the last.
    start: usize,
    capacity: usize,
}

impl Stage {
    fn lines(&self) -> usize {
        self.kernel.patches().lines()
    }

    /// Bytes of a pixel of the output.
    fn pixel_bytes(&self) -> usize {
        self.kernel.channels() * self.kernel.element_bytes()
    }
}

impl Chain {
    /// `None` where the stages don't fit each other, or come in batches.
    pub fn new(kernels: &[Arc<dyn Lines>]) -> Option<Self> {
        let fits = |pair: &[Arc<dyn Lines>]| {
            let (from, to) = (pair[0].patches(), pair[1].patches());
            let channels = pair[0].channels();
            pair[0].element_bytes() == pair[1].element_bytes()
                && (to.in_height, to.in_width, to.channels)
                    == (from.out_height, from.out_width, channels)
        };
        if kernels.is_empty()
            || kernels.len() > MAX_STAGES
            || !kernels.windows(2).all(fits)
            || kernels.iter().any(|kernel| kernel.patches().batches != 1)
        {
            return None;
        }
        let own_scratch = kernels.iter().map(|kernel| kernel.scratch_bytes()).max().unwrap_or(0);
        let own_scratch = own_scratch.next_multiple_of(64);
        let stage = |kernel: &Arc<dyn Lines>| Stage {
            line_bytes: kernel.patches().out_width * kernel.channels() * kernel.element_bytes(),
            kernel: Arc::clone(kernel),
            start: 0,
            capacity: 0,
        };
        let mut chain = Self { stages: kernels.iter().map(stage).collect(), band: 0, own_scratch };
        let height = chain.stages.last()?.lines().max(1);
        // The largest bands that fit, all as high as can be.
        let mut bands = 1;
        loop {
            chain.plan(height.div_ceil(bands));
            if chain.near_bytes() <= BUDGET || chain.band == 1 {
                return Some(chain);
            }
            bands += 1;
        }
    }

    /// Gives every stage room for what the next needs of it.
    fn plan(&mut self, band: usize) {
        self.band = band;
        let (mut wanted, mut start) = (band, self.own_scratch);
        for at in (1..self.stages.len()).rev() {
            let next = *self.stages[at].kernel.patches();
            let stage = &mut self.stages[at - 1];
            let needed = ((wanted - 1) * next.stride_h + next.reach_h()).min(stage.lines());
            // Lines that the next band needs too are moved up; twice the room, half as often. Of a
            // dilated window these are many more than a band: no more than two for each new one.
            let shares = next.reach_h() > next.stride_h && needed < stage.lines();
            let new = next.stride_h * wanted;
            let room = if shares { new.max(needed.saturating_sub(new) / 2) } else { 0 };
            stage.capacity = (needed + room).min(stage.lines());
            stage.start = start;
            start += (stage.capacity * stage.line_bytes).next_multiple_of(64);
            wanted = needed;
        }
    }

    /// Bytes that are written and soon read again: lines between the stages, or where there is one
    /// alone, its result and what is added to it.
    fn near_bytes(&self) -> usize {
        match &self.stages[..] {
            [alone] => 2 * self.band * alone.line_bytes,
            _ => self.scratch_bytes() - self.own_scratch,
        }
    }

    /// Scratch memory of a run.
    pub fn scratch_bytes(&self) -> usize {
        let end =
            |stage: &Stage| stage.start + (stage.capacity * stage.line_bytes).next_multiple_of(64);
        let between = self.stages.split_last().map_or(&[][..], |(_, between)| between);
        between.iter().map(end).max().unwrap_or(self.own_scratch)
    }

    /// Bytes that lie between the stages where each is computed whole; of one alone, between it and
    /// a sum.
    pub fn saved_bytes(&self) -> usize {
        let between = match &self.stages[..] {
            alone @ [_] => alone,
            [between @ .., _] => between,
            [] => &[],
        };
        between.iter().map(|stage| stage.lines() * stage.line_bytes).sum()
    }

    /// Bytes of weights that come from L3 again for every band, where L2 can't
    /// keep them.
    pub fn reread_bytes(&self) -> usize {
        let weights: usize = self.stages.iter().map(|stage| stage.kernel.weight_bytes()).sum();
        let bands = self.lines().div_ceil(self.band.max(1));
        if weights > STAYING { weights * (bands - 1) } else { 0 }
    }

    /// Lines of the output, which may be computed apart.
    pub fn lines(&self) -> usize {
        self.stages.last().map_or(0, Stage::lines)
    }

    /// Bytes of a pixel of the image, and of one of the output.
    pub fn pixel_bytes(&self) -> (usize, usize) {
        let read = |stage: &Stage| stage.kernel.patches().channels * stage.kernel.element_bytes();
        (self.stages.first().map_or(0, read), self.stages.last().map_or(0, Stage::pixel_bytes))
    }

    /// Returns whether parts of the output that are computed apart share lines of a stage, which
    /// are then computed twice.
    pub fn overlaps(&self) -> bool {
        self.stages.len() > 1
    }

    /// Computes some lines of the output, and adds those of the residual, if there is one.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute(
        &self,
        image: Rows<In<'_, u8>>,
        residual: Option<(&Combine, Rows<In<'_, u8>>)>,
        output: Rows<Out<'_, u8>>,
        lines: Range<usize>,
        scratch: &mut [u8],
    ) -> Result<(), String> {
        let (Some(first), Some(last)) = (self.stages.first(), self.stages.last()) else {
            return Ok(());
        };
        let (read, written) = self.pixel_bytes();
        let image = image.pitched(first.kernel.patches().pixels(), read)?;
        let to = output.pitched(last.kernel.patches().rows(), written)?;
        crate::tensor::check_lengths(scratch.len(), self.scratch_bytes())?;
        crate::tensor::check_lengths(last.lines(), lines.end)?;
        let mut at_hand = [const { 0..0 }; MAX_STAGES];
        for start in lines.clone().step_by(self.band) {
            let band = start..(start + self.band).min(lines.end);
            // SAFETY: lengths were checked; lines are asked for in order.
            unsafe { self.band(image, to, &band, &mut at_hand, scratch) };
            if let Some((combine, residual)) = residual {
                let here = band.start * last.line_bytes..band.end * last.line_bytes;
                crate::tensor::check_lengths(residual.len(), here.end)?;
                let inputs = [output.as_in(), residual].map(|rows| Along {
                    rows,
                    from: here.start,
                    moves: true,
                });
                each_span(here.len(), inputs, output, here.start, |[done, more], to| {
                    combine(done.view(), more.view(), to.view())
                })?;
            }
        }
        Ok(())
    }

    /// A band of the output, and what of the stages before it is not at hand yet.
    ///
    /// # Safety
    /// Image and output are whole, the scratch memory as long as stated; `at_hand` is what this
    /// left there, or nothing.
    unsafe fn band(
        &self,
        image: Pitched<*const u8>,
        output: Pitched<*mut u8>,
        band: &Range<usize>,
        at_hand: &mut [Range<usize>; MAX_STAGES],
        scratch: &mut [u8],
    ) {
        let last = self.stages.len() - 1;
        let mut wanted = [const { 0..0 }; MAX_STAGES];
        wanted[last] = band.clone();
        for at in (0..last).rev() {
            wanted[at] = self.stages[at + 1].kernel.patches().input_lines(&wanted[at + 1]);
        }
        let (own, between) = scratch.split_at_mut(self.own_scratch);
        let mut from = image;
        for (at, stage) in self.stages.iter().enumerate() {
            let (to, new) = if at == last {
                (output, band.clone())
            } else {
                let start = stage.start - self.own_scratch;
                let room = &mut between[start..start + stage.capacity * stage.line_bytes];
                let new = make_room(stage, room, &mut at_hand[at], &wanted[at]);
                // Where line 0 would be.
                let first = at_hand[at].start * stage.line_bytes;
                let start = room.as_mut_ptr().wrapping_sub(first);
                (Pitched { start, pitch: stage.pixel_bytes() }, new)
            };
            if !new.is_empty() {
                // SAFETY: the lines that these need are at hand, and there is room for them.
                unsafe { stage.kernel.lines(from, to, new, own) };
            }
            from = to.as_const();
        }
    }
}

/// Moves the lines that are still wanted up where there is no room below them, and gives those to
/// compute.
fn make_room(
    stage: &Stage,
    room: &mut [u8],
    at_hand: &mut Range<usize>,
    wanted: &Range<usize>,
) -> Range<usize> {
    if wanted.start >= at_hand.end || wanted.start < at_hand.start {
        *at_hand = wanted.start..wanted.start;
    } else if wanted.end - at_hand.start > stage.capacity {
        let line = |line: usize| (line - at_hand.start) * stage.line_bytes;
        room.copy_within(line(wanted.start)..line(at_hand.end), 0);
        at_hand.start = wanted.start;
    }
    let new = at_hand.end..wanted.end.max(at_hand.end);
    at_hand.end = new.end;
    new
}

#[cfg(test)]
mod tests;
