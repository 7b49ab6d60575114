//! A vector of channels at a time.

use super::{CLASHING, CLASHING_POWER, Pixels};
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Kernel, Simd};

/// Windows that slide together: enough sums to hide an addition's latency, and each pixel that they
/// share is loaded once.
const TOGETHER: usize = 4;

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
        unsafe { slide::<S::F32, COLUMNS, STRIDE, ORDERED>(isa, p) };
    }
}

/// Windows of any shape, one at a time or those of neighbouring lines.
struct Any<const ORDERED: bool>;

impl<const ORDERED: bool> Kernel for Any<ORDERED> {
    type Work = Pixels;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, p: &Pixels) {
        // A copy, which the compiler knows that no store changes.
        let p = &{ *p };
        // SAFETY: as the caller promises.
        unsafe {
            if p.is_column() {
                column::<S::F32, ORDERED>(isa, p);
            } else {
                any::<S::F32, ORDERED>(isa, p);
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

/// All lines of the pixels, with whether all lanes of the vector are channels.
///
/// Lines are innermost, so that what windows of neighbouring lines share is in L1: a
/// line of a few channels fits it where one of all channels doesn't. What is done with them is no
/// closure: a large one would be a function of its own, without the instruction set, where each
/// intrinsic is a call.
#[inline(always)]
fn lines<V: F32Simd>(p: &Pixels) -> impl Iterator<Item = (Line, bool)> {
    (0..p.channels).step_by(V::LANES).flat_map(move |channel| {
        (0..p.height).map(move |at| (Line::of(p, at, channel), channel + V::LANES <= p.channels))
    })
}

impl Line {
    #[inline(always)]
    fn of(p: &Pixels, line: usize, channel: usize) -> Self {
        let input = p.input.wrapping_add(line * p.input_line + channel);
        let output = p.output.wrapping_add(line * p.output_line + channel);
        Self { channel, input, output }
    }
}

/// See [`Slide`].
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn slide<V: F32Simd, const COLUMNS: usize, const STRIDE: usize, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
) {
    let power = p.tap_column >= CLASHING_POWER && p.tap_column.is_power_of_two();
    let clashes = power || p.tap_column.is_multiple_of(CLASHING);
    if clashes && p.lines == COLUMNS && p.channels.is_multiple_of(V::LANES) {
        // Known when it is compiled, the number of lines makes no loop.
        let square = Pixels { lines: COLUMNS, ..*p };
        // SAFETY: as the caller promises.
        unsafe { return across::<V, COLUMNS, STRIDE, ORDERED>(isa, &square) };
    }
    for (line, whole) in lines::<V>(p) {
        // SAFETY: as the caller promises; a line at a time.
        unsafe {
            if whole {
                slide_line::<V, COLUMNS, STRIDE, true, ORDERED>(isa, p, line);
            } else {
                slide_line::<V, COLUMNS, STRIDE, false, ORDERED>(isa, p, line);
            }
        }
    }
}

/// All channels of some square windows at a time, of which there are whole vectors.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn across<V: F32Simd, const COLUMNS: usize, const STRIDE: usize, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
) {
    let whole = p.count / TOGETHER * TOGETHER;
    for line in (0..p.height).map(|line| Line::of(p, line, 0)) {
        // SAFETY: as the caller promises; a part of the pixels each time.
        unsafe {
            for pixel in (0..whole).step_by(TOGETHER) {
                channels::<V, TOGETHER, COLUMNS, STRIDE, ORDERED>(isa, p, line, pixel);
            }
            match p.count - whole {
                3 => channels::<V, 3, COLUMNS, STRIDE, ORDERED>(isa, p, line, whole),
                2 => channels::<V, 2, COLUMNS, STRIDE, ORDERED>(isa, p, line, whole),
                1 => channels::<V, 1, COLUMNS, STRIDE, ORDERED>(isa, p, line, whole),
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
    while place.channel < p.channels {
        // SAFETY: as the caller promises.
        unsafe { windows::<V, COUNT, COLUMNS, STRIDE, true, ORDERED>(isa, p, place, pixel) };
        place.channel += V::LANES;
        place.input = place.input.wrapping_add(V::LANES);
        place.output = place.output.wrapping_add(V::LANES);
    }
}

/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn slide_line<
    V: F32Simd,
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
            windows::<V, TOGETHER, COLUMNS, STRIDE, WHOLE, ORDERED>(isa, p, line, pixel);
        }
        match p.count - whole {
            3 if WHOLE => windows::<V, 3, COLUMNS, STRIDE, WHOLE, ORDERED>(isa, p, line, whole),
            2 if WHOLE => windows::<V, 2, COLUMNS, STRIDE, WHOLE, ORDERED>(isa, p, line, whole),
            _ => {
                for pixel in whole..p.count {
                    windows::<V, 1, COLUMNS, STRIDE, WHOLE, ORDERED>(isa, p, line, pixel);
                }
            }
        }
    }
}

/// `COUNT` neighbouring windows of `COLUMNS` columns, `STRIDE` columns apart.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn windows<
    V: F32Simd,
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
    let channel = place.channel;
    // SAFETY: bias and weights are padded to whole vectors; the windows are over the image.
    unsafe {
        let mut sums = [start::<V, ORDERED>(isa, p, channel); COUNT];
        let first = place.input.add(pixel * p.step);
        for line in 0..p.lines {
            let mut weights = [V::splat(isa, 0.0); COLUMNS];
            for (tap, weight) in weights.iter_mut().enumerate() {
                let at = line * p.weight_line + tap * p.weight_column + channel;
                *weight = V::load(isa, p.weights.add(at));
            }
            let first = first.add(line * p.tap_line);
            for column in 0..(COUNT - 1) * STRIDE + COLUMNS {
                let x: V = load::<V, WHOLE>(isa, p, channel, first.add(column * p.tap_column));
                for (at, sum) in sums.iter_mut().enumerate() {
                    if column >= at * STRIDE && column - at * STRIDE < COLUMNS {
                        *sum = plus::<V, ORDERED>(x, weights[column - at * STRIDE], *sum);
                    }
                }
            }
        }
        for (at, &sum) in sums.iter().enumerate() {
            store::<V, WHOLE, ORDERED>(isa, p, place, pixel + at, sum);
        }
    }
}

/// Windows of any shape, one at a time.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn any<V: F32Simd, const ORDERED: bool>(isa: V::Isa, p: &Pixels) {
    for (line, whole) in lines::<V>(p) {
        // SAFETY: as the caller promises; a line at a time.
        unsafe {
            if whole {
                any_line::<V, true, ORDERED>(isa, p, line);
            } else {
                any_line::<V, false, ORDERED>(isa, p, line);
            }
        }
    }
}

/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn any_line<V: F32Simd, const WHOLE: bool, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
    place: Line,
) {
    let channel = place.channel;
    // SAFETY: as for `windows`.
    unsafe {
        for pixel in 0..p.count {
            let mut sum = start::<V, ORDERED>(isa, p, channel);
            for line in 0..p.lines {
                let taps = place.input.add(pixel * p.step + line * p.tap_line);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let x: V = load::<V, WHOLE>(isa, p, channel, taps.add(column * p.tap_column));
                    let weight = V::load(isa, weights.add(column * p.weight_column));
                    sum = plus::<V, ORDERED>(x, weight, sum);
                }
            }
            store::<V, WHOLE, ORDERED>(isa, p, place, pixel, sum);
        }
    }
}

/// Windows of any shape, of one pixel of each line: those of neighbouring lines are summed
/// together.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn column<V: F32Simd, const ORDERED: bool>(isa: V::Isa, p: &Pixels) {
    for channel in (0..p.channels).step_by(V::LANES) {
        // SAFETY: as the caller promises.
        unsafe {
            if channel + V::LANES <= p.channels {
                column_of::<V, true, ORDERED>(isa, p, channel);
            } else {
                column_of::<V, false, ORDERED>(isa, p, channel);
            }
        }
    }
}

/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn column_of<V: F32Simd, const WHOLE: bool, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
    channel: usize,
) {
    let whole = p.height / TOGETHER * TOGETHER;
    // SAFETY: as the caller promises; some of the lines each time.
    unsafe {
        for line in (0..whole).step_by(TOGETHER) {
            below::<V, TOGETHER, WHOLE, ORDERED>(isa, p, channel, line);
        }
        for line in whole..p.height {
            below::<V, 1, WHOLE, ORDERED>(isa, p, channel, line);
        }
    }
}

/// The pixels of `COUNT` lines from the one `first` on.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn below<V: F32Simd, const COUNT: usize, const WHOLE: bool, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
    channel: usize,
    first: usize,
) {
    // SAFETY: as for `windows`.
    unsafe {
        let mut sums = [start::<V, ORDERED>(isa, p, channel); COUNT];
        let input = p.input.wrapping_add(first * p.input_line + channel);
        for line in 0..p.lines {
            let taps = input.add(line * p.tap_line);
            let weights = p.weights.add(line * p.weight_line + channel);
            for column in 0..p.columns {
                let weight = V::load(isa, weights.add(column * p.weight_column));
                let taps = taps.add(column * p.tap_column);
                for (at, sum) in sums.iter_mut().enumerate() {
                    let x: V = load::<V, WHOLE>(isa, p, channel, taps.add(at * p.input_line));
                    *sum = plus::<V, ORDERED>(x, weight, *sum);
                }
            }
        }
        for (at, &sum) in sums.iter().enumerate() {
            let output = p.output.wrapping_add((first + at) * p.output_line + channel);
            store::<V, WHOLE, ORDERED>(isa, p, Line { channel, input, output }, 0, sum);
        }
    }
}

/// What sums of a vector of channels start with.
///
/// # Safety
/// The bias is padded to whole vectors.
#[inline(always)]
unsafe fn start<V: F32Simd, const ORDERED: bool>(isa: V::Isa, p: &Pixels, channel: usize) -> V {
    if ORDERED {
        return V::splat(isa, 0.0);
    }
    // SAFETY: as the caller promises.
    unsafe { V::load(isa, p.bias.add(channel)) }
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
unsafe fn store<V: F32Simd, const WHOLE: bool, const ORDERED: bool>(
    isa: V::Isa,
    p: &Pixels,
    line: Line,
    pixel: usize,
    sum: V,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let sum = if ORDERED { sum.add(V::load(isa, p.bias.add(line.channel))) } else { sum };
        let y = sum.clamp(V::splat(isa, p.low), V::splat(isa, p.high));
        let to = line.output.add(pixel * p.output_step);
        if WHOLE {
            y.store(to);
        } else {
            y.store_first(to, p.channels - line.channel);
        }
    }
}
