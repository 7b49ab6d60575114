//! RESIZE_BILINEAR: of signed integers between four pixels, with weights of ten bits each way; of
//! FLOAT32 and UINT8 as NNAPI's.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::{In, Out, Shape, poll};

use super::arg::{ElementKind, OperatorCall, by_kind};
use super::image::resized;
use super::math::{Stored, low};
use crate::lowering::Lowered;
use crate::ops::resize::Grid;
use crate::ops::support::{Image, compiled};

/// A place between two pixels, in steps of 1/1024.
#[derive(Clone, Copy, Debug)]
struct Between {
    low: usize,
    high: usize,
    /// The weight of the upper one.
    weight: i64,
}

/// Stored values between four pixels: the result has its own scale for them.
pub(super) fn resize_bilinear(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (kind, from, to) = resized(call)?;
    let (is_aligned, is_half) = (call.flag(0)?, call.flag(1)?);
    if matches!(kind, ElementKind::F32 | ElementKind::U8) {
        let grid = Grid { align_corners: is_aligned, half_pixel_centers: is_half };
        return crate::ops::bilinear::emit(call, grid.taps(from, to));
    }
    let places = move |input: usize, output: usize| -> Vec<Between> {
        let [wide_in, wide_out] =
            [input, output].map(|it| i64::try_from(it).unwrap_or(i64::MAX >> 16));
        let scale = if is_aligned && wide_out > 1 {
            ((wide_in - 1) * 1024 + (wide_out - 1) / 2) / (wide_out - 1)
        } else {
            (wide_in * 1024 + wide_out / 2) / wide_out.max(1)
        };
        let place = |at: i64| {
            let scaled = if is_half { at * scale + scale / 2 - 512 } else { at * scale };
            let low = (scaled / 1024).max(0);
            let high = ((scaled + 1023) / 1024).min(wide_in - 1);
            let index = |it: i64| usize::try_from(it).unwrap_or(0).min(input - 1);
            Between { low: index(low), high: index(high), weight: scaled - low * 1024 }
        };
        (0..wide_out).map(place).collect()
    };
    let (rows, columns) = (places(from.height, to.height), places(from.width, to.width));
    let shape = to.shape()?;
    if kind == ElementKind::I8 {
        emit_bytes(call, &shape, [from, to], rows, columns);
        return Ok(());
    }
    by_kind!(kind, [I16 i16], T => call.step(&shape, move |io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let mut at = 0;
        for batch in 0..to.batches {
            for y in &rows {
                poll::work(columns.len() * from.channels * 4)?;
                for x in &columns {
                    let weights = [
                        (y.low, x.low, (1024 - y.weight) * (1024 - x.weight)),
                        (y.high, x.low, y.weight * (1024 - x.weight)),
                        (y.low, x.high, (1024 - y.weight) * x.weight),
                        (y.high, x.high, y.weight * x.weight),
                    ];
                    for channel in 0..from.channels {
                        let sum: i64 = weights
                            .iter()
                            .map(|&(y, x, weight)| {
                                i64::from(input.get(from.at(batch, y, x, channel)).wide()) * weight
                            })
                            .sum();
                        let half = if sum > 0 { 1 << 19 } else { -(1 << 19) };
                        output.set(at, T::stored(low((sum + half) / (1 << 20))));
                        at += 1;
                    }
                }
            }
        }
        Ok(())
    }));
    Ok(())
}

/// Emits the interpolation of signed bytes, whose sums have 32 bits: lines between two lines first,
/// then pixels between two of their pixels.
fn emit_bytes(
    call: &mut OperatorCall<'_, '_>,
    shape: &Shape,
    [from, to]: [Image; 2],
    rows: Vec<Between>,
    columns: Vec<Between>,
) {
    let (wide, line) = (from.width * from.channels, to.width * to.channels);
    let isa = call.isa();
    let label = compiled(isa, "tflite_resize_bilinear", shape, 0);
    let scratch = 4 * (wide + BLOCK);
    call.emit_bands(label, scratch, to.batches * to.height, move |mut io, band| {
        let (input, output) = (io.input::<i8>(0), io.output::<i8>(0));
        let between = &mut io.scratch_slice::<i32>()[..wide + BLOCK];
        between[wide..].fill(0);
        for row in band {
            poll::work(wide / 4 + line / 2)?;
            let (batch, y) = (row / to.height, rows[row % to.height]);
            let lines = [y.low, y.high].map(|y| {
                let start = from.at(batch, y, 0, 0);
                input.slice(start..start + wide)
            });
            isa.run(Lines { lines, weight: low(y.weight), between: &mut between[..wide] });
            let (columns, channels) = (columns.as_slice(), from.channels);
            let output = output.slice(row * line..(row + 1) * line);
            isa.run(Pixels { between, columns, channels, output });
        }
        Ok(())
    });
}

/// A line between two: each element of them with its weight.
struct Lines<'a> {
    lines: [In<'a, i8>; 2],
    /// Of the second one.
    weight: i32,
    between: &'a mut [i32],
}

impl Loop for Lines<'_> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 32;
        let [low, high] = [1024 - self.weight, self.weight];
        let of = |a: i8, b: i8| i32::from(a) * low + i32::from(b) * high;
        let (blocks, rest) = self.between.as_chunks_mut::<BLOCK>();
        let whole = blocks.len() * BLOCK;
        for (at, block) in blocks.iter_mut().enumerate() {
            let [a, b] = self.lines.map(|line| line.block::<BLOCK>(at * BLOCK));
            for ((to, a), b) in block.iter_mut().zip(a).zip(b) {
                *to = of(a, b);
            }
        }
        for (at, to) in rest.iter_mut().enumerate() {
            let [a, b] = self.lines.map(|line| line.get(whole + at));
            *to = of(a, b);
        }
    }
}

/// Channels of a pixel that are computed at a time.
const BLOCK: usize = 16;

/// Pixels of a line, each between two of another, behind which there is a block more.
struct Pixels<'a> {
    between: &'a [i32],
    columns: &'a [Between],
    channels: usize,
    output: Out<'a, i8>,
}

impl Loop for Pixels<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { between, columns, channels, output } = self;
        for (at, x) in columns.iter().enumerate() {
            let weight = low(x.weight);
            let weights = [1024 - weight, weight];
            for first in (0..channels).step_by(BLOCK) {
                let [a, b] = [x.low, x.high].map(|x| &between[x * channels + first..][..BLOCK]);
                let mut values = [0; BLOCK];
                for ((value, &a), &b) in values.iter_mut().zip(a).zip(b) {
                    *value = rounded([a, b], weights);
                }
                // What is no channel of this pixel is written over with the next one.
                let place = at * channels + first;
                if place + BLOCK <= output.len() {
                    output.set_block(place, values);
                } else {
                    let rest = values.iter().take(channels - first);
                    rest.enumerate().for_each(|(at, &value)| output.set(place + at, value));
                }
            }
        }
    }
}

/// The byte of two sums with ten bits behind the point: ten more, and halves away from zero.
/// Weights are from -512 to 1536 and make up 1024, so that sums stay below 2^29.
#[inline(always)]
fn rounded([a, b]: [i32; 2], [low, high]: [i32; 2]) -> i8 {
    let sum = a * low + b * high;
    let half = if sum > 0 { 1 << 19 } else { -(1 << 19) };
    i8::stored((sum + half) / (1 << 20))
}

#[cfg(test)]
mod tests {
    use nnburst_kernels::simd::Isa;

    use super::*;

    #[test]
    fn bytes_between_four_are_rounded_once() {
        let byte = |at: usize| u8::try_from(at * 7919 % 256).unwrap().cast_signed();
        for channels in [1, 3, 16, 35] {
            let wide = 4 * channels;
            let lines = [0, 1]
                .map(|line| (0..wide).map(|at| byte(at * 3 + line * 101)).collect::<Vec<_>>());
            let places = [(0, 0, -512), (0, 1, 0), (1, 2, 341), (2, 3, 1023), (3, 3, 512)];
            let columns = places.map(|(low, high, weight)| Between { low, high, weight });
            let weights = [-512, 0, 700, 1023];
            for (isa, weight) in Isa::all().flat_map(|isa| weights.map(|weight| (isa, weight))) {
                let mut between = vec![0; wide + BLOCK];
                let given = [0, 1].map(|line: usize| In::of(&lines[line]));
                let of_lines = &mut between[..wide];
                isa.run(Lines { lines: given, weight, between: of_lines });
                let mut output = vec![0; columns.len() * channels];
                let to = Out::of(&mut output);
                isa.run(Pixels { between: &between, columns: &columns, channels, output: to });
                for (at, &got) in output.iter().enumerate() {
                    let (x, channel) = (columns[at / channels], at % channels);
                    let line = |line: usize| {
                        let of = |x: usize| i64::from(lines[line][x * channels + channel]);
                        of(x.low) * (1024 - x.weight) + of(x.high) * x.weight
                    };
                    let sum = line(0) * (1024 - i64::from(weight)) + line(1) * i64::from(weight);
                    let half = if sum > 0 { 1 << 19 } else { -(1 << 19) };
                    assert_eq!(got, i8::stored(low((sum + half) / (1 << 20))), "{isa:?}, {at}");
                }
            }
        }
    }
}
