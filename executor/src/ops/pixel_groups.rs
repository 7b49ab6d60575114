//! Lines of an image of integers between lines and pixels of another one, a vector's worth of
//! channels at a time: of neighbouring pixels together where they have few.

use nnburst_kernels::kernels::bilinear_f32::Tap;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::rows::{Port, Rows};
use nnburst_kernels::tensor::{Element, In, Out, poll};

use super::support::Image;
use crate::lowering::{Label, Lowered, OpBuilder};

/// Channels that are computed side by side.
const LANES: usize = 16;

/// Pixels of a group, at most.
const PIXELS: usize = 4;

/// What a value becomes: of the pixels above and below on the left, then on the right, with the
/// weights of the lines' second and of the columns' second.
pub(super) trait Blend<T, W>: Fn([T; 4], [W; 2]) -> T + Send + Sync + 'static {}

impl<T, W, F: Fn([T; 4], [W; 2]) -> T + Send + Sync + 'static> Blend<T, W> for F {}

/// Neighbouring pixels of the result.
#[derive(Clone, Copy, Debug)]
struct Group<W> {
    /// The pixels of the image on either side of each; those that are missing are the last again.
    sides: [[usize; PIXELS]; 2],
    /// The weights of each lane's right side.
    weights: [W; LANES],
}

/// Adds a step that gives an image with channels innermost.
///
/// # Errors
/// There is no memory for the tables of columns.
pub(super) fn emit<T: Element, W: Copy + Send + Sync + 'static>(
    op: &mut OpBuilder<'_>,
    label: Label,
    [from, to]: [Image; 2],
    rows: Vec<Tap<W>>,
    columns: &[Tap<W>],
    blend: impl Blend<T, W>,
) -> Lowered {
    let (isa, channels, pixel) = (op.isa(), to.channels, to.channels * size_of::<T>());
    let together = LANES / lanes(channels);
    op.claim(to.width.div_ceil(together).saturating_mul(size_of::<Group<W>>()))?;
    let groups = groups(columns, channels);
    // Groups between two reports of work.
    let most = (poll::CHUNK / channels.max(LANES)).max(1);
    op.emit_bands(label, 0, to.batches * to.height, move |io, lines| {
        let (input, output) = (io.input_rows::<T>(0), io.output_rows::<T>(0));
        for line in lines {
            let (image, row) = (line / to.height * from.height, rows[line % to.height]);
            let lines = [row.first, row.second].map(|it| (image + it) * from.width);
            let mut pixels = line * to.width..(line + 1) * to.width;
            for groups in groups.chunks(most) {
                poll::work(groups.len().saturating_mul(channels.max(LANES)))?;
                let (weight, blend, to) = (row.weight, &blend, pixels.clone());
                isa.run(Line { input, lines, weight, groups, output, pixels: to, channels, blend });
                pixels.start += groups.len() * together;
            }
        }
        Ok(())
    });
    op.rows(&[(Port::Input(0), Some(pixel)), (Port::Output, Some(pixel))]);
    Ok(())
}

/// Lanes that a pixel of so many channels has in a group.
fn lanes(channels: usize) -> usize {
    match channels {
        ..=4 => 4,
        5..=8 => 8,
        _ => LANES,
    }
}

fn groups<W: Copy>(columns: &[Tap<W>], channels: usize) -> Vec<Group<W>> {
    let lanes = lanes(channels);
    let group = |columns: &[Tap<W>]| {
        let of = |pixel: usize| columns[pixel.min(columns.len() - 1)];
        let side = |side: fn(&Tap<W>) -> usize| std::array::from_fn(|at| side(&of(at)));
        Group {
            sides: [side(|it| it.first), side(|it| it.second)],
            weights: std::array::from_fn(|lane| of(lane / lanes).weight),
        }
    };
    columns.chunks(LANES / lanes).map(group).collect()
}

/// A line of the result.
struct Line<'a, T, W, B> {
    input: Rows<In<'a, T>>,
    /// The first pixels of two lines of the image.
    lines: [usize; 2],
    weight: W,
    groups: &'a [Group<W>],
    output: Rows<Out<'a, T>>,
    /// Those of the result: from that of the first group to the end of the line.
    pixels: std::ops::Range<usize>,
    channels: usize,
    blend: &'a B,
}

impl<T: Element, W: Copy, B: Fn([T; 4], [W; 2]) -> T> Loop for Line<'_, T, W, B> {
    #[inline(always)]
    fn run(self) {
        match lanes(self.channels) {
            4 => self.run_groups::<4>(),
            8 => self.run_groups::<8>(),
            _ if self.channels < LANES => self.run_pixels::<false>(),
            _ => self.run_pixels::<true>(),
        }
    }
}

// No closures beside the blend: of one as large as what gathers pixels the compiler makes a
// function of its own, which has no vectors.
impl<T: Element, W: Copy, B: Fn([T; 4], [W; 2]) -> T> Line<'_, T, W, B> {
    /// By groups of pixels that have `P` lanes each.
    #[inline(always)]
    fn run_groups<const P: usize>(self) {
        let (image, result) = (self.input.all(), self.output.all());
        let (pitch, pitch_out) = self.pitches();
        let [above, below] = self.lines.map(|line| line * pitch);
        // What is no channel of a pixel is written over with those behind it on the line.
        let behind = if self.channels == P { 0 } else { P };
        let is_spilt = self.channels == P || self.output.is_one_piece();
        let mut first = self.pixels.start;
        for Group { sides: [left, right], weights } in self.groups {
            let a = gathered::<T, P>(image, above, left, pitch);
            let b = gathered::<T, P>(image, below, left, pitch);
            let c = gathered::<T, P>(image, above, right, pitch);
            let d = gathered::<T, P>(image, below, right, pitch);
            let values = self.blended([a, b, c, d], weights);
            let (to, pixels) = (first * pitch_out, values.as_chunks::<P>().0);
            if is_spilt && first + LANES / P + behind <= self.pixels.end {
                for (at, pixel) in pixels.iter().enumerate() {
                    result.set_block(to + at * pitch_out, *pixel);
                }
            } else {
                let count = self.pixels.end - first;
                for (at, pixel) in pixels.iter().take(count).enumerate() {
                    result
                        .slice(to + at * pitch_out..to + at * pitch_out + self.channels)
                        .fill(*pixel);
                }
            }
            first += LANES / P;
        }
    }

    /// Pixel by pixel, a vector's channels at a time; `FILL` one at least.
    #[inline(always)]
    fn run_pixels<const FILL: bool>(self) {
        let (image, result) = (self.input.all(), self.output.all());
        let (pitch, pitch_out) = self.pitches();
        let [above, below] = self.lines.map(|line| line * pitch);
        // Channels of the last vector lie over those of the one before.
        let last = self.channels.saturating_sub(LANES);
        let mut to = self.pixels.start * pitch_out;
        let (is_spilt, end) = (self.output.is_one_piece(), self.pixels.end * pitch_out);
        for Group { sides: [left, right], weights } in self.groups {
            let (left, right) = (left[0] * pitch, right[0] * pitch);
            let mut channel = 0;
            loop {
                let a = block::<T, LANES, FILL>(image, above + left + channel);
                let b = block::<T, LANES, FILL>(image, below + left + channel);
                let c = block::<T, LANES, FILL>(image, above + right + channel);
                let d = block::<T, LANES, FILL>(image, below + right + channel);
                let values = self.blended([a, b, c, d], weights);
                // Of fewer than half a vector there would be several pixels behind each.
                if FILL || (is_spilt && to + 2 * self.channels <= end) {
                    result.set_block(to + channel, values);
                } else {
                    result.slice(to..to + self.channels).fill(values);
                }
                if channel == last {
                    break;
                }
                channel = last.min(channel + LANES);
            }
            to += pitch_out;
        }
    }

    /// Elements from one pixel to the next, of the image and of the result.
    #[inline(always)]
    fn pitches(&self) -> (usize, usize) {
        let (input, output) = (self.input, self.output);
        let pitch = if input.is_one_piece() { self.channels } else { input.row_stride() };
        let pitch_out = if output.is_one_piece() { self.channels } else { output.row_stride() };
        (pitch, pitch_out)
    }

    #[inline(always)]
    fn blended(&self, [a, b, c, d]: [[T; LANES]; 4], weights: &[W; LANES]) -> [T; LANES] {
        let mut values = [T::default(); LANES];
        for (lane, value) in values.iter_mut().enumerate() {
            let around = [a[lane], b[lane], c[lane], d[lane]];
            *value = (self.blend)(around, [self.weight, weights[lane]]);
        }
        values
    }
}

/// `P` elements of each pixel of one side of a group.
#[inline(always)]
fn gathered<T: Element, const P: usize>(
    image: In<'_, T>,
    line: usize,
    side: &[usize; PIXELS],
    pitch: usize,
) -> [T; LANES] {
    let mut values = [T::default(); LANES];
    for (pixel, &at) in values.as_chunks_mut::<P>().0.iter_mut().zip(side) {
        *pixel = block::<T, P, false>(image, line + at * pitch);
    }
    values
}

/// `N` elements. If a pixel has fewer channels, `ALL` are not there: some may be behind the image.
#[inline(always)]
fn block<T: Element, const N: usize, const ALL: bool>(image: In<'_, T>, from: usize) -> [T; N] {
    if ALL || from + N <= image.len() { image.block(from) } else { rest(image, from) }
}

#[cold]
#[inline(never)]
fn rest<T: Element, const N: usize>(image: In<'_, T>, from: usize) -> [T; N] {
    let mut values = [T::default(); N];
    let own = image.slice(from.min(image.len())..image.len());
    values.iter_mut().zip(own.iter()).for_each(|(to, value)| *to = value);
    values
}

#[cfg(test)]
mod tests {
    use nnburst_kernels::simd::Isa;
    use nnburst_kernels::tensor::rows::Apart;

    use super::*;

    fn blend([a, b, c, d]: [i16; 4], [v, u]: [i16; 2]) -> i16 {
        (a * (3 - v) + b * v) * (3 - u) + (c * (3 - v) + d * v) * u
    }

    #[test]
    fn pixels_are_between_those_of_their_columns_in_rows_that_lie_apart_too() {
        let columns = [(0, 0, 0), (0, 1, 1), (1, 2, 2), (2, 3, 0), (3, 4, 1), (4, 4, 2), (1, 4, 1)];
        let columns = columns.map(|(first, second, weight)| Tap { first, second, weight });
        for (isa, gap) in Isa::all().flat_map(|isa| [(isa, 0), (isa, 5)]) {
            for channels in (1..20).chain([31, 32, 33]) {
                let image: Vec<i16> = (0..2 * 5 * channels).map(|_| 0).collect();
                let value = |at: usize| i16::try_from(at * 37 % 101).unwrap();
                let image: Vec<i16> = (0..image.len()).map(value).collect();
                let apart = Apart { row: 2 * channels, pitch: 2 * (channels + gap) };
                let (mut wide, mut want) = (Vec::new(), vec![-1; 7 * (channels + gap) - gap]);
                image.chunks(channels).for_each(|pixel| {
                    wide.extend(pixel);
                    wide.extend(std::iter::repeat_n(999, gap));
                });
                wide.truncate(wide.len() - gap);
                for (x, column) in columns.iter().enumerate() {
                    for channel in 0..channels {
                        let of = |y: usize, x: usize| image[(y * 5 + x) * channels + channel];
                        let Tap { first, second, weight } = *column;
                        let around = [of(0, first), of(1, first), of(0, second), of(1, second)];
                        want[x * (channels + gap) + channel] = blend(around, [2, weight]);
                    }
                }
                let mut got = vec![-1; want.len()];
                let (input, output) = match gap {
                    0 => (In::of(&wide).into(), Out::of(&mut got).into()),
                    _ => {
                        (Rows::new(In::of(&wide), apart, 2), Rows::new(Out::of(&mut got), apart, 2))
                    }
                };
                isa.run(Line {
                    input,
                    lines: [0, 5],
                    weight: 2,
                    groups: &groups(&columns, channels),
                    output,
                    pixels: 0..7,
                    channels,
                    blend: &blend,
                });
                assert_eq!(got, want, "{isa:?}, {channels} channels, {gap} between pixels");
            }
        }
    }
}
