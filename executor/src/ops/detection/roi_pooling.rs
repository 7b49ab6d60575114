//! ROI_POOLING: regions of a feature map at one size, by the maximum of each bin.
//!
//! Source: NNAPI, since HAL 1.2; signed 8-bit since 1.3. An empty bin gives zero.

use nnburst_kernels::tensor::quant::round_half_away;
use nnburst_kernels::tensor::{Element, Quantised, Real, poll};

use super::boxes::Corners;
use super::roi::Regions;
use crate::lowering::{Io, Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::support::{dispatch, plain, same_quantisation};

pub(in crate::ops) static ROI_POOLING: Op = Op { lower };

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let features = op.input(0)?;
    let regions = Regions::read(op, &features, 7)?;
    same_quantisation(&features, &op.output(0)?)?;
    dispatch!(features.kind, 0, real: emit_real(op, regions), byte: emit_byte(op, regions, features.zero_point))
}

fn emit_real<T: Real>(op: &mut OpBuilder<'_>, regions: Regions) -> Lowered {
    emit(op, regions, T::from_f32(0.0))
}

fn emit_byte<T: Quantised>(op: &mut OpBuilder<'_>, regions: Regions, zero_point: i32) -> Lowered {
    emit(op, regions, T::from_i32(zero_point))
}

fn emit<T: Element>(op: &mut OpBuilder<'_>, regions: Regions, zero: T) -> Lowered {
    let shape = regions.out.shape()?;
    // At most the whole map for each line of a region.
    let map = (regions.features.height * regions.features.width) as u64;
    let work =
        (regions.lines() as u64).saturating_mul(map.saturating_mul(regions.out.channels as u64));
    let label = plain("roi_pooling", &shape, work);
    op.emit_bands(label, 0, regions.lines(), move |io: Io<'_>, lines| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let (features, out) = (regions.features, regions.out);
        for (region, i) in lines.map(|line| (line / out.height, line % out.height)) {
            let (batch, [x1, y1, x2, y2]): (usize, Corners) = regions.region(&io, region)?;
            let rows = Bins::new(y1, y2, out.height, features.height);
            let columns = Bins::new(x1, x2, out.width, features.width);
            for j in poll::each(0..out.width, 8) {
                for channel in poll::each(0..out.channels, 8) {
                    let mut best: Option<T> = None;
                    for y in poll::each(rows.range(i), 8) {
                        for x in poll::each(columns.range(j), 4) {
                            let value = input.get(features.at(batch, y, x, channel));
                            if best.is_none_or(|best| value > best) {
                                best = Some(value);
                            }
                        }
                    }
                    output.set(out.at(region, i, j, channel), best.unwrap_or(zero));
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// A region along one axis, cut into bins.
#[derive(Clone, Copy, Debug)]
struct Bins {
    start: f32,
    step: f32,
    extent: usize,
}

impl Bins {
    #[expect(clippy::cast_precision_loss, reason = "extents of a feature map")]
    fn new(from: f32, to: f32, bins: usize, extent: usize) -> Self {
        let (first, last) = (round_half_away(from), round_half_away(to));
        let len = last.saturating_sub(first).saturating_add(1).max(1);
        Self { start: first as f32, step: len as f32 / bins as f32, extent }
    }

    /// The positions of a bin that lie within the feature map.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate, and the range is clipped to the extent"
    )]
    fn range(self, bin: usize) -> std::ops::Range<usize> {
        let first = (self.step * bin as f32 + self.start).floor() as usize;
        let end = (self.step * (bin + 1) as f32 + self.start).ceil() as usize;
        first.min(self.extent)..end.min(self.extent)
    }
}
