//! ROI_ALIGN: regions of a feature map at one size, by averages of bilinear samples.
//!
//! Source: NNAPI, since HAL 1.2; signed 8-bit since 1.3. Zero regions give an empty output.

use std::ops::Range;

use nnburst_kernels::tensor::quant::{Multiplier, round_half_away};
use nnburst_kernels::tensor::{OpError, Quantised, Real, poll};

use super::boxes::Corners;
use super::roi::Regions;
use crate::lowering::{Io, Label, Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::support::{dispatch, plain};

pub(in crate::ops) static ROI_ALIGN: Op = Op { lower };

/// Samples per bin: as given, or as many as the bin is pixels high or wide where that is 0.
#[derive(Clone, Copy, Debug)]
struct Ratios {
    height: usize,
    width: usize,
}

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let features = op.input(0)?;
    let regions = Regions::read(op, &features, 9)?;
    let ratios = Ratios { height: op.extent(7, 0)?, width: op.extent(8, 0)? };
    // Bounds the work that a few bytes can ask for.
    for (index, ratio) in [(7, ratios.height), (8, ratios.width)] {
        if ratio > MAX_RATIO {
            let what = format!("asks for {ratio} samples, more than {MAX_RATIO}");
            return Err(OpError::input(index, what).into());
        }
    }
    dispatch!(features.kind, 0, real: emit_real(op, regions, ratios), byte: emit_byte(op, regions, ratios))
}

const MAX_RATIO: usize = 1 << 12;

/// The work is of four taps a sample; where their number follows from the regions, as many as a
/// region of the whole map has.
fn label(regions: &Regions, ratios: Ratios) -> Result<Label, OpError> {
    let out = regions.out.shape()?;
    let along = |ratio: usize, extent: usize, bins: usize| {
        if ratio > 0 { ratio } else { extent.div_ceil(bins) }
    };
    let rows = along(ratios.height, regions.features.height, regions.out.height);
    let columns = along(ratios.width, regions.features.width, regions.out.width);
    let samples = (out.elements() as u64).saturating_mul((rows * columns) as u64);
    Ok(plain("roi_align", &out, samples.saturating_mul(8)))
}

fn emit_real<T: Real>(op: &mut OpBuilder<'_>, regions: Regions, ratios: Ratios) -> Lowered {
    op.emit_bands(label(&regions, ratios)?, 0, regions.lines(), move |io: Io<'_>, lines| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        each_bin(&io, &regions, ratios, lines, |batch, place, samples, channel| {
            let mut sum = 0.0;
            samples.each(&regions, |taps| {
                for (weight, y, x) in taps {
                    sum += weight * input.get(regions.features.at(batch, y, x, channel)).to_f32();
                }
            });
            output.set(place, T::from_f32(sum / samples.count()));
        })
    });
    Ok(())
}

fn emit_byte<T: Quantised>(op: &mut OpBuilder<'_>, regions: Regions, ratios: Ratios) -> Lowered {
    let (from, to) = (op.input(0)?, op.output(0)?);
    op.emit_bands(label(&regions, ratios)?, 0, regions.lines(), move |io: Io<'_>, lines| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        // Each weight is a number of 255ths.
        const STEP: f32 = 1.0 / 255.0;
        each_bin(&io, &regions, ratios, lines, |batch, place, samples, channel| {
            let mut sum = 0i32;
            samples.each(&regions, |taps| {
                for (weight, y, x) in taps {
                    let value = input.get(regions.features.at(batch, y, x, channel)).to_i32();
                    let weight = round_half_away(weight / STEP);
                    sum = sum.wrapping_add(weight.wrapping_mul(value - from.zero_point));
                }
            });
            let real = from.scale * STEP / to.scale / samples.count();
            let scaled = Multiplier::new(f64::from(real)).apply(sum);
            output.set(place, T::from_i32(scaled.saturating_add(to.zero_point)));
        })
    });
    Ok(())
}

/// The samples of one bin.
#[derive(Clone, Copy, Debug)]
struct Samples {
    y: f32,
    x: f32,
    step_y: f32,
    step_x: f32,
    rows: usize,
    columns: usize,
}

/// Four weights with the row and column they go to.
type Taps = [(f32, usize, usize); 4];

impl Samples {
    #[expect(clippy::cast_precision_loss, reason = "a number of samples")]
    fn count(&self) -> f32 {
        (self.rows * self.columns) as f32
    }

    #[expect(clippy::cast_precision_loss, reason = "positions in a feature map")]
    fn each(&self, regions: &Regions, mut each: impl FnMut(Taps)) {
        for row in poll::each(0..self.rows, 8) {
            let (y1, y2, dy) = split(self.y + self.step_y * row as f32, regions.features.height);
            for column in poll::each(0..self.columns, 16) {
                let x = self.x + self.step_x * column as f32;
                let (x1, x2, dx) = split(x, regions.features.width);
                each([
                    ((1.0 - dx) * (1.0 - dy), y1, x1),
                    (dx * (1.0 - dy), y1, x2),
                    ((1.0 - dx) * dy, y2, x1),
                    (dx * dy, y2, x2),
                ]);
            }
        }
    }
}

/// The pixels around a position, and how far it is from the first to the second.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "float casts saturate, and the position is clamped to the extent"
)]
fn split(position: f32, extent: usize) -> (usize, usize, f32) {
    let first = position.floor() as usize;
    if first + 1 >= extent {
        (extent - 1, extent - 1, 0.0)
    } else {
        (first, first + 1, position - first as f32)
    }
}

/// Calls `each(image, position in the output, samples, channel)` for every element of some lines of
/// the output.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "extents of a feature map; float casts saturate"
)]
fn each_bin(
    io: &Io<'_>,
    regions: &Regions,
    ratios: Ratios,
    lines: Range<usize>,
    mut each: impl FnMut(usize, usize, Samples, usize),
) -> Result<(), String> {
    let out = regions.out;
    for (region, i) in lines.map(|line| (line / out.height, line % out.height)) {
        let (batch, [x1, y1, x2, y2]): (usize, Corners) = regions.region(io, region)?;
        let step_h = (y2 - y1).max(1.0) / out.height as f32;
        let step_w = (x2 - x1).max(1.0) / out.width as f32;
        let samples =
            |ratio: usize, step: f32| if ratio > 0 { ratio } else { step.ceil() as usize };
        let (rows, columns) = (samples(ratios.height, step_h), samples(ratios.width, step_w));
        let (bin_h, bin_w) = (step_h / rows as f32, step_w / columns as f32);
        for j in poll::each(0..out.width, 16) {
            let samples = Samples {
                y: step_h * i as f32 + y1 + bin_h / 2.0,
                x: step_w * j as f32 + x1 + bin_w / 2.0,
                step_y: bin_h,
                step_x: bin_w,
                rows,
                columns,
            };
            for channel in poll::each(0..out.channels, 16) {
                each(batch, out.at(region, i, j, channel), samples, channel);
            }
        }
    }
    Ok(())
}
