//! A vector of channels at a time, or the few that a cache line has: by themselves they would each
//! fetch it.

use super::{CLASHING, CLASHING_POWER, Pixels};
use crate::simd::vector_f32::{F32Lanes, F32Simd};
use crate::simd::{Kernel, Simd};

/// Windows that slide together: enough sums to hide an addition's latency, and each pixel that they
/// share is loaded once.
const TOGETHER: usize = 4;

/// Floats of a cache line.
const LINE: usize = 16;

/// With `ORDERED`, each product is rounded before it is added, and the bias is added last.
pub(super) struct Windows<const ORDERED: bool>;

impl<const ORDERED: bool> Kernel for Windows<ORDERED> {
    type Work = Pixels;

    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, p: &Pixels) {
        let every = p.alike();
        for first in 0..every.min(p.count) {
            let p = p.every(every, first);
            let halves = p.fill_halves::<S::F32>();
            let sliding = if halves { p.pairs() } else { p };
            // A function for each: the compiler takes several times as long for all of them in one.
            let run = match (sliding.columns, sliding.step) {
                _ if sliding.is_column() => S::run::<Any<ORDERED>>,
                (2, step) if step == sliding.tap_column => S::run::<Slide<2, 1, ORDERED>>,
                (3, step) if step == sliding.tap_column => S::run::<Slide<3, 1, ORDERED>>,
                (3, step) if step == 2 * sliding.tap_column => S::run::<Slide<3, 2, ORDERED>>,
                (5, step) if step == sliding.tap_column => S::run::<Slide<5, 1, ORDERED>>,
                (5, step) if step == 2 * sliding.tap_column => S::run::<Slide<5, 2, ORDERED>>,
                _ => S::run::<Any<ORDERED>>,
            };
            // SAFETY: as the caller promises; there is a proof of the instruction set.
            unsafe {
                run(&sliding);
                if halves && !p.count.is_multiple_of(2) {
                    S::run::<Any<ORDERED>>(&p.last(1));
                }
            }
        }
    }
}

/// Windows of `COLUMNS` columns, `STRIDE` columns apart.
struct Slide<const COLUMNS: usize, const STRIDE: usize, const ORDERED: bool>;

impl<const COLUMNS: usize, const STRIDE: usize, const ORDERED: bool> Kernel
    for Slide<COLUMNS, STRIDE, ORDERED>
{
    type Work = Pixels;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, p: &Pixels) {
        // A copy, which the compiler knows that no store changes.
        let p = &{ *p };
        // SAFETY: as the caller promises.
        unsafe {
            match LINE / S::F32::LANES {
                // More of so many columns, and the weights leave no registers for sums.
                2 if COLUMNS < 5 => slide::<S::F32, 2, COLUMNS, STRIDE, ORDERED>(isa, p),
                4 if COLUMNS < 5 => slide::<S::F32, 4, COLUMNS, STRIDE, ORDERED>(isa, p),
                _ => slide::<S::F32, 1, COLUMNS, STRIDE, ORDERED>(isa, p),
            }
        };
    }
}

/// Windows of any shape, of neighbouring pixels that share nothing.
struct Any<const ORDERED: bool>;

impl<const ORDERED: bool> Kernel for Any<ORDERED> {
    type Work = Pixels;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, p: &Pixels) {
        // A copy, which the compiler knows that no store changes.
        let p = &{ *p };
        // SAFETY: as the caller promises.
        unsafe {
            match LINE / S::F32::LANES {
                2 => any::<S::F32, 2, ORDERED>(isa, p),
                4 => any::<S::F32, 4, ORDERED>(isa, p),
                _ => any::<S::F32, 1, ORDERED>(isa, p),
            }
        }
    }
}

impl Pixels {
    /// Returns whether the pixels are one of each line: of a border, or of an image as wide.
    #[inline(always)]
    fn is_column(&self) -> bool {
        self.count == 1 && self.height > 1
    }

    /// Every how many pixels windows share columns: as many as columns of a dilated window are
    /// apart. Such pixels by themselves have windows that aren't dilated.
    #[inline(always)]
    fn alike(&self) -> usize {
        let is_dilated = self.columns > 1 && self.tap_column > self.step && self.step > 0;
        match is_dilated && self.tap_column.is_multiple_of(self.step) {
            true => self.tap_column / self.step,
            false => 1,
        }
    }

    /// Pixel `first`, which there is, and from there on one of `every` pixels.
    #[inline(always)]
    fn every(&self, every: usize, first: usize) -> Self {
        Self {
            input: self.input.wrapping_add(first * self.step),
            output: self.output.wrapping_add(first * self.output_step),
            step: every * self.step,
            output_step: every * self.output_step,
            count: (self.count - first).div_ceil(every),
            ..*self
        }
    }

    /// Returns whether two neighbouring pixels are one vector, in the input and the output: the
    /// windows of both are then those of twice as many channels, two columns apart.
    #[inline(always)]
    fn fill_halves<V: F32Simd>(&self) -> bool {
        let channels = self.channels;
        2 * channels == V::LANES
            && self.columns == 3
            && self.count > 1
            && [self.step, self.tap_column, self.output_step] == [channels; 3]
    }

    /// Neighbouring pixels as one; weights and bias are repeated.
    #[inline(always)]
    fn pairs(&self) -> Self {
        Self {
            channels: 2 * self.channels,
            step: 2 * self.step,
            output_step: 2 * self.output_step,
            count: self.count / 2,
            ..*self
        }
    }

    /// The last `count` pixels of each line.
    #[inline(always)]
    fn last(&self, count: usize) -> Self {
        let before = self.count - count;
        Self {
            input: self.input.wrapping_add(before * self.step),
            output: self.output.wrapping_add(before * self.output_step),
            count,
            ..*self
        }
    }
}

/// A vector of channels of a line of pixels.
#[derive(Clone, Copy)]
struct Line {
    channel: usize,
    /// The first pixel's window, and its output, at that channel.
    input: *const f32,
    output: *mut f32,
}

/// Channels that are taken together: some vectors, one, or a part of one.
#[derive(Clone, Copy)]
enum Block {
    Vectors,
    One,
    Part,
}

/// The channels, `VECTORS` vectors at a time where there are as many, with the first of each.
///
/// Lines of pixels are within these, so that what windows of neighbouring lines share is in L1: a
/// line of a few channels fits it where one of all channels doesn't. What is done with them is no
/// closure: a large one would be a function of its own, without the instruction set, where each
/// intrinsic is a call.
#[inline(always)]
fn channels_of<V: F32Simd, const VECTORS: usize>(
    p: &Pixels,
) -> impl Iterator<Item = (usize, Block)> {
    let (mut next, all) = (0, p.channels);
    std::iter::from_fn(move || {
        let first = next;
        let (block, count) = match all - first {
            0 => return None,
            left if VECTORS > 1 && left >= VECTORS * V::LANES => (Block::Vectors, VECTORS),
            left if left >= V::LANES => (Block::One, 1),
            _ => (Block::Part, 1),
        };
        next = all.min(first + count * V::LANES);
        Some((first, block))
    })
}

impl Line {
    #[inline(always)]
    fn of(p: &Pixels, line: usize, channel: usize) -> Self {
        let input = p.input.wrapping_add(line * p.input_line + channel);
        let output = p.output.wrapping_add(line * p.output_line + channel);
        Self { channel, input, output }
    }

    /// So many pixels further, which are so many elements `apart` in the input and the output.
    #[inline(always)]
    fn further(self, pixels: usize, apart: [usize; 2]) -> Self {
        Self {
            input: self.input.wrapping_add(pixels * apart[0]),
            output: self.output.wrapping_add(pixels * apart[1]),
            ..self
        }
    }

    /// So many channels further.
    #[inline(always)]
    fn right(self, channels: usize) -> Self {
        Self {
            channel: self.channel + channels,
            input: self.input.wrapping_add(channels),
            output: self.output.wrapping_add(channels),
        }
    }
}

/// See [`Slide`]; so many `VECTORS` of channels are taken together where there are as many.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn slide<
    V: F32Simd,
    const VECTORS: usize,
    const COLUMNS: usize,
    const STRIDE: usize,
    const ORDERED: bool,
>(
    isa: V::Isa,
    p: &Pixels,
) {
    let power = p.tap_column >= CLASHING_POWER && p.tap_column.is_power_of_two();
    let clashes = power || p.tap_column.is_multiple_of(CLASHING);
    if clashes && p.lines == COLUMNS && p.channels.is_multiple_of(V::LANES) {
        // Known when it is compiled, the number of lines makes no loop.
        let square = Pixels { lines: COLUMNS, ..*p };
        // SAFETY: as the caller promises.
        unsafe { return across::<V, VECTORS, COLUMNS, STRIDE, ORDERED>(isa, &square) };
    }
    for (channel, block) in channels_of::<V, VECTORS>(p) {
        for line in (0..p.height).map(|line| Line::of(p, line, channel)) {
            // SAFETY: as the caller promises; a line at a time.
            unsafe {
                match block {
                    Block::Vectors => {
                        slide_line::<V, VECTORS, COLUMNS, STRIDE, true, ORDERED>(isa, p, line);
                    }
                    Block::One => {
                        slide_line::<V, 1, COLUMNS, STRIDE, true, ORDERED>(isa, p, line);
                    }
                    Block::Part => {
                        slide_line::<V, 1, COLUMNS, STRIDE, false, ORDERED>(isa, p, line);
                    }
                }
            }
        }
    }
}

/// All channels of some square windows at a time, of which there are whole vectors.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn across<
    V: F32Simd,
    const VECTORS: usize,
    const COLUMNS: usize,
    const STRIDE: usize,
    const ORDERED: bool,
>(
    isa: V::Isa,
    p: &Pixels,
) {
    let whole = p.count / TOGETHER * TOGETHER;
    for line in (0..p.height).map(|line| Line::of(p, line, 0)) {
        // SAFETY: as the caller promises; a part of the pixels each time.
        unsafe {
            for pixel in (0..whole).step_by(TOGETHER) {
                channels::<V, VECTORS, TOGETHER, COLUMNS, STRIDE, ORDERED>(isa, p, line, pixel);
            }
            match p.count - whole {
                3 => channels::<V, VECTORS, 3, COLUMNS, STRIDE, ORDERED>(isa, p, line, whole),
                2 => channels::<V, VECTORS, 2, COLUMNS, STRIDE, ORDERED>(isa, p, line, whole),
                1 => channels::<V, VECTORS, 1, COLUMNS, STRIDE, ORDERED>(isa, p, line, whole),
                _ => {}
            }
        }
    }
}

/// All channels of `COUNT` neighbouring windows.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn channels<
    V: F32Simd,
    const VECTORS: usize,
    const COUNT: usize,
    const COLUMNS: usize,
    const STRIDE: usize,
    const ORDERED: bool,
>(
    isa: V::Isa,
    p: &Pixels,
    mut place: Line,
    pixel: usize,
) {
    let wide = VECTORS * V::LANES;
    // SAFETY: as the caller promises.
    unsafe {
        while place.channel + wide <= p.channels {
            windows::<V, VECTORS, COUNT, COLUMNS, STRIDE, true, ORDERED>(isa, p, place, pixel);
            place = place.right(wide);
        }
        while VECTORS > 1 && place.channel < p.channels {
            windows::<V, 1, COUNT, COLUMNS, STRIDE, true, ORDERED>(isa, p, place, pixel);
            place = place.right(V::LANES);
        }
    }
}

/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn slide_line<
    V: F32Simd,
    const VECTORS: usize,
    const COLUMNS: usize,
    const STRIDE: usize,
    const WHOLE: bool,
    const ORDERED: bool,
>(
    isa: V::Isa,
    p: &Pixels,
    line: Line,
) {
    let whole = p.count / TOGETHER * TOGETHER;
    // SAFETY: as the caller promises; a part of the pixels each time.
    unsafe {
        for pixel in (0..whole).step_by(TOGETHER) {
            windows::<V, VECTORS, TOGETHER, COLUMNS, STRIDE, WHOLE, ORDERED>(isa, p, line, pixel);
        }
        match p.count - whole {
            3 if WHOLE => {
                windows::<V, VECTORS, 3, COLUMNS, STRIDE, WHOLE, ORDERED>(isa, p, line, whole);
            }
            2 if WHOLE => {
                windows::<V, VECTORS, 2, COLUMNS, STRIDE, WHOLE, ORDERED>(isa, p, line, whole);
            }
            _ => {
                for pixel in whole..p.count {
                    windows::<V, VECTORS, 1, COLUMNS, STRIDE, WHOLE, ORDERED>(isa, p, line, pixel);
                }
            }
        }
    }
}

/// `COUNT` neighbouring windows of `COLUMNS` columns, `STRIDE` columns apart.
///
/// # Safety
/// As for the pixels; `VECTORS` of channels are there, or one of which they are a part.
#[inline(always)]
unsafe fn windows<
    V: F32Simd,
    const VECTORS: usize,
    const COUNT: usize,
    const COLUMNS: usize,
    const STRIDE: usize,
    const WHOLE: bool,
    const ORDERED: bool,
>(
    isa: V::Isa,
    p: &Pixels,
    place: Line,
    pixel: usize,
) {
    // SAFETY: bias and weights are padded to whole vectors; the windows are over the image.
    unsafe {
        let mut sums = [starts::<V, VECTORS, ORDERED>(isa, p, place.channel); COUNT];
        let first = place.input.add(pixel * p.step);
        for line in 0..p.lines {
            let mut weights = [[V::splat(isa, 0.0); VECTORS]; COLUMNS];
            for (tap, weights) in weights.iter_mut().enumerate() {
                let at = line * p.weight_line + tap * p.weight_column + place.channel;
                for (v, weight) in weights.iter_mut().enumerate() {
                    *weight = V::load(isa, p.weights.add(at + v * V::LANES));
                }
            }
            let first = first.add(line * p.tap_line);
            for column in 0..(COUNT - 1) * STRIDE + COLUMNS {
                let from = first.add(column * p.tap_column);
                for v in 0..VECTORS {
                    let x: V = load::<V, WHOLE>(isa, p, place.channel, from.add(v * V::LANES));
                    for (at, sums) in sums.iter_mut().enumerate() {
                        if column >= at * STRIDE && column - at * STRIDE < COLUMNS {
                            let weight = weights[column - at * STRIDE][v];
                            sums[v] = plus::<V, ORDERED>(x, weight, sums[v]);
                        }
                    }
                }
            }
        }
        for (at, sums) in sums.into_iter().enumerate() {
            let pixel = place.further(pixel + at, [p.step, p.output_step]);
            store::<V, VECTORS, WHOLE, ORDERED>(isa, p, pixel, sums);
        }
    }
}

/// See [`Any`]; so many `VECTORS` of channels are taken together where there are as many.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn any<V: F32Simd, const VECTORS: usize, const ORDERED: bool>(isa: V::Isa, p: &Pixels) {
    for (channel, block) in channels_of::<V, VECTORS>(p) {
        // SAFETY: as the caller promises.
        unsafe {
            match block {
                Block::Vectors => any_of::<V, VECTORS, true, ORDERED>(isa, p, channel),
                Block::One => any_of::<V, 1, true, ORDERED>(isa, p, channel),
                Block::Part => any_of::<V, 1, false, ORDERED>(isa, p, channel),
            }
        }
    }
}

/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn any_of<V: F32Simd, const VECTORS: usize, const WHOLE: bool, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
    channel: usize,
) {
    // Pixels go along the longer side.
    let (lines, count, apart) = match p.is_column() {
        true => (1, p.height, [p.input_line, p.output_line]),
        false => (p.height, p.count, [p.step, p.output_step]),
    };
    let whole = count / TOGETHER * TOGETHER;
    for line in (0..lines).map(|line| Line::of(p, line, channel)) {
        // SAFETY: as the caller promises; some of the pixels each time.
        unsafe {
            for first in (0..whole).step_by(TOGETHER) {
                let place = line.further(first, apart);
                neighbours::<V, VECTORS, TOGETHER, WHOLE, ORDERED>(isa, p, place, apart);
            }
            for at in whole..count {
                let place = line.further(at, apart);
                neighbours::<V, VECTORS, 1, WHOLE, ORDERED>(isa, p, place, apart);
            }
        }
    }
}

/// Windows of any shape of `COUNT` pixels, so many elements `apart` in the input and the output.
///
/// # Safety
/// As for the pixels; `VECTORS` of channels are there, or one of which they are a part.
#[inline(always)]
unsafe fn neighbours<
    V: F32Simd,
    const VECTORS: usize,
    const COUNT: usize,
    const WHOLE: bool,
    const ORDERED: bool,
>(
    isa: V::Isa,
    p: &Pixels,
    place: Line,
    apart: [usize; 2],
) {
    // SAFETY: as for `windows`.
    unsafe {
        let mut sums = [starts::<V, VECTORS, ORDERED>(isa, p, place.channel); COUNT];
        for line in 0..p.lines {
            let taps = place.input.add(line * p.tap_line);
            let weights = p.weights.add(line * p.weight_line + place.channel);
            for column in 0..p.columns {
                let weights = weights.add(column * p.weight_column);
                let taps = taps.add(column * p.tap_column);
                for v in 0..VECTORS {
                    let weight = V::load(isa, weights.add(v * V::LANES));
                    for (at, sums) in sums.iter_mut().enumerate() {
                        let from = taps.add(at * apart[0] + v * V::LANES);
                        let x: V = load::<V, WHOLE>(isa, p, place.channel, from);
                        sums[v] = plus::<V, ORDERED>(x, weight, sums[v]);
                    }
                }
            }
        }
        for (at, sums) in sums.into_iter().enumerate() {
            store::<V, VECTORS, WHOLE, ORDERED>(isa, p, place.further(at, apart), sums);
        }
    }
}

/// What sums of the vectors of channels from `channel` on start with.
///
/// # Safety
/// The bias is padded to whole vectors.
#[inline(always)]
unsafe fn starts<V: F32Simd, const VECTORS: usize, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
    channel: usize,
) -> [V; VECTORS] {
    if ORDERED {
        return [V::splat(isa, 0.0); VECTORS];
    }
    // SAFETY: as the caller promises.
    unsafe { biases(isa, p, channel) }
}

/// The biases of the vectors of channels from `channel` on.
///
/// # Safety
/// They are padded to whole vectors.
#[inline(always)]
unsafe fn biases<V: F32Simd, const VECTORS: usize>(
    isa: V::Isa,
    p: &Pixels,
    channel: usize,
) -> [V; VECTORS] {
    let mut all = [V::splat(isa, 0.0); VECTORS];
    for (v, bias) in all.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        *bias = unsafe { V::load(isa, p.bias.add(channel + v * V::LANES)) };
    }
    all
}

/// A sum with a product.
#[inline(always)]
fn plus<V: F32Simd, const ORDERED: bool>(x: V, weight: V, sum: V) -> V {
    if ORDERED { x.mul(weight).add(sum) } else { x.mul_add(weight, sum) }
}

/// # Safety
/// The channels are readable.
#[inline(always)]
unsafe fn load<V: F32Simd, const WHOLE: bool>(
    isa: V::Isa,
    p: &Pixels,
    channel: usize,
    from: *const f32,
) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        if WHOLE { V::load(isa, from) } else { V::load_first(isa, from, p.channels - channel) }
    }
}

/// # Safety
/// The pixel's channels are writable.
#[inline(always)]
unsafe fn store<V: F32Simd, const VECTORS: usize, const WHOLE: bool, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
    pixel: Line,
    mut sums: [V; VECTORS],
) {
    // SAFETY: as the caller promises.
    unsafe {
        if ORDERED {
            sums = sums.add(biases(isa, p, pixel.channel));
        }
        for (v, sum) in sums.into_iter().enumerate() {
            let y = sum.clamp(V::splat(isa, p.low), V::splat(isa, p.high));
            let to = pixel.output.add(v * V::LANES);
            if WHOLE {
                y.store(to);
            } else {
                y.store_first(to, p.channels - pixel.channel);
            }
        }
    }
}
