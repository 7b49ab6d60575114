//! Lines of an image between lines and pixels of another one: bilinear interpolation.
//!
//! A line of the result is computed in strips: what lies between two lines of the image first, and
//! then what lies between two pixels of that.

mod arithmetic;
mod vectors;

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;

use self::arithmetic::{Interpolate, SignedElement};
use crate::simd::{Isa, Variant};
use crate::tensor::rows::Rows;
use crate::tensor::{Element, In, Out, poll};

/// A place between two lines or columns of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap<W = f32> {
    /// The index of the one above, or on the left.
    pub first: usize,
    /// The index of the other.
    pub second: usize,
    /// The share of the second; the first has the rest.
    pub weight: W,
}

/// The share of a second line or column.
pub trait Weight: Copy + Debug + Send + Sync + 'static {
    /// Returns whether it is from nothing to all.
    fn is_share(self) -> bool;
}

impl Weight for f32 {
    fn is_share(self) -> bool {
        (0.0..=1.0).contains(&self)
    }
}

/// Steps of 1/1024.
impl Weight for i32 {
    fn is_share(self) -> bool {
        (0..=1024).contains(&self)
    }
}

/// What is interpolated, and how.
pub trait Samples: Copy + Debug + Send + Sync + 'static {
    /// The elements of both images.
    type Element: Element;

    /// The kind of shares.
    type Weight: Weight;

    /// Numbers that lie between two lines for an element.
    const PARTS: usize;

    /// The best variant up to `isa`.
    fn best(isa: Isa) -> Best<Self>;
}

/// A variant of the kernel for a kind of elements.
#[derive(Clone, Copy, Debug)]
pub struct Best<T: Samples>(Variant<Run<T>>);

fn best<T: Interpolate>(isa: Isa) -> Best<T> {
    Best(T::VARIANTS.best(isa))
}

/// Floats, in single precision.
#[derive(Clone, Copy, Debug)]
pub struct Floats;

impl Samples for Floats {
    type Element = f32;
    type Weight = f32;

    const PARTS: usize = 1;

    fn best(isa: Isa) -> Best<Self> {
        best(isa)
    }
}

/// Bytes that are taken as unsigned ones, with floats as weights.
#[derive(Clone, Copy, Debug)]
pub struct UnsignedBytes;

impl Samples for UnsignedBytes {
    type Element = u8;
    type Weight = f32;

    const PARTS: usize = 2;

    fn best(isa: Isa) -> Best<Self> {
        best(isa)
    }
}

/// Signed integers of 8 or 16 bits, with weights in steps of 1/1024.
#[derive(Clone, Copy, Debug)]
pub struct Signed<T>(PhantomData<T>);

impl<T: SignedElement> Samples for Signed<T> {
    type Element = T;
    type Weight = i32;

    const PARTS: usize = 1;

    fn best(isa: Isa) -> Best<Self> {
        best(isa)
    }
}

/// Numbers behind those of the last pixel, which the last vector may have.
const PADDING: usize = 16;

/// Elements of a strip, unless one pixel has more.
const STRIP: usize = 2048;

/// Nanoseconds that finding the place of a column takes at most, about.
const COLUMN_NS: usize = 16;

/// A pixel of the result: where those on either side begin in what is kept of the strip, or which
/// pixels of the line they are.
#[derive(Clone, Copy, Debug)]
struct Column<W> {
    first: u32,
    second: u32,
    weight: W,
}

/// Some pixels of a line.
#[derive(Debug)]
struct Strip {
    columns: Range<usize>,
    /// The pixels of the image between whose lines all is computed once, and kept; none where that
    /// takes longer than it saves.
    kept: Range<usize>,
}

/// A strip of the output and the lines that it is between.
#[derive(Clone, Copy, Debug)]
struct Work<T: Samples> {
    /// The first pixels of two lines of the input.
    lines: [*const T::Element; 2],
    /// Elements of the input from the later one on.
    left: usize,
    /// Elements from one pixel of the input to the next.
    pitch: usize,
    /// The weight of the second line.
    weight: T::Weight,
    /// What makes unsigned bytes of those that are stored.
    flip: u8,
    /// The first pixel that is kept, and how many are.
    start: usize,
    kept: usize,
    columns: *const Column<T::Weight>,
    /// Pixels of the output.
    count: usize,
    /// Elements of a pixel.
    channels: usize,
    /// What is kept: of each element one number or two, and the padding.
    middle: [*mut u32; 2],
    output: *mut T::Element,
    /// Elements from one pixel of the output to the next.
    output_pitch: usize,
}

/// # Safety
/// The pixels that the columns name and those of the output are there, as is the room between; the
/// machine has the instruction set.
type Run<T> = unsafe fn(&Work<T>);

/// An interpolation in its best variant.
#[derive(Debug)]
pub struct Bilinear<T: Samples> {
    variant: Variant<Run<T>>,
    channels: usize,
    /// Lines and columns of an image of the input.
    extents: [usize; 2],
    flip: u8,
    rows: Vec<Tap<T::Weight>>,
    columns: Vec<Column<T::Weight>>,
    strips: Vec<Strip>,
    /// Numbers of a part of a strip.
    room: usize,
}

impl<T: Samples> Bilinear<T> {
    /// Takes the best variant up to `isa`, for images of so many lines and columns of `channels`
    /// elements each, and where the lines and columns of the output lie in them. The bits of `flip`
    /// make unsigned bytes of those that are stored, if they are taken as such.
    ///
    /// # Errors
    /// There are no channels or lines, or one is outside the image, or what is between two is
    /// outside them.
    pub fn new(
        isa: Isa,
        channels: usize,
        extents: [usize; 2],
        rows: Vec<Tap<T::Weight>>,
        columns: &[Tap<T::Weight>],
        flip: u8,
    ) -> Result<Self, String> {
        if channels == 0 || rows.is_empty() {
            return Err(format!("{} lines of {channels} channels", rows.len()));
        }
        check::<T>(&rows, extents[0])?;
        check::<T>(columns, extents[1])?;
        let mut this = Self {
            variant: T::best(isa).0,
            channels,
            extents,
            flip,
            rows,
            columns: Vec::with_capacity(columns.len()),
            strips: Vec::new(),
            room: 0,
        };
        let together = (STRIP / channels).max(1);
        for columns in poll::each(columns.chunks(together), COLUMN_NS * together) {
            this.push(columns)?;
        }
        let most = this.strips.iter().map(|strip| strip.kept.len()).max();
        this.room = most.unwrap_or(0) * channels + PADDING;
        Ok(this)
    }

    /// Adds a strip.
    fn push(&mut self, columns: &[Tap<T::Weight>]) -> Result<(), String> {
        let ends = || columns.iter().flat_map(|tap| [tap.first, tap.second]);
        let all = ends().min().unwrap_or(0)..ends().max().map_or(0, |last| last + 1);
        // A vector of a pixel takes longer if nothing was kept for it; as long as three quarters of
        // one that is kept.
        let saved = columns.len() * self.channels.next_multiple_of(PADDING) / 4 * 3;
        let is_kept = all.len() * self.channels <= saved;
        let kept = if is_kept { all } else { 0..0 };
        let place = |pixel: usize| {
            let place = if is_kept { (pixel - kept.start) * self.channels } else { pixel };
            u32::try_from(place).map_err(|_| format!("pixel {pixel} of {} elements", self.channels))
        };
        let start = self.columns.len();
        for tap in columns {
            let (first, second) = (place(tap.first)?, place(tap.second)?);
            self.columns.push(Column { first, second, weight: tap.weight });
        }
        self.strips.push(Strip { columns: start..self.columns.len(), kept });
        Ok(())
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Numbers that [`Bilinear::compute`] needs room for.
    pub fn scratch(&self) -> usize {
        T::PARTS * self.room
    }

    /// Computes lines of the output, counted over all images; pixels are the rows of either tensor.
    ///
    /// # Errors
    /// A line is not there, or rows are no pixels, or there is too little room; the run has to end.
    pub fn compute(
        &self,
        lines: Range<usize>,
        input: Rows<In<'_, T::Element>>,
        output: Rows<Out<'_, T::Element>>,
        scratch: &mut [u32],
    ) -> Result<(), String> {
        let Self { channels, extents: [height, width], ref rows, .. } = *self;
        let Some(last) = lines.clone().next_back() else {
            return Ok(());
        };
        let pixels = (last / rows.len() + 1).saturating_mul(height).saturating_mul(width);
        let from = input.pitched(pixels, channels)?;
        let columns = last.saturating_add(1).saturating_mul(self.columns.len());
        let to = output.pitched(columns, channels)?;
        if scratch.len() < self.scratch() {
            return Err(format!("room for {} numbers of {}", scratch.len(), self.scratch()));
        }
        let middle = scratch.as_mut_ptr();
        let all = pixels.checked_sub(1).map_or(0, |gaps| gaps * from.pitch + channels);
        for line in lines {
            let (image, tap) = (line / rows.len() * height, rows[line % rows.len()]);
            let places = [tap.first, tap.second].map(|it| (image + it) * width * from.pitch);
            for Strip { columns, kept } in &self.strips {
                poll::work((columns.len() + kept.len()).saturating_mul(channels))?;
                let work = Work {
                    lines: places.map(|place| from.start.wrapping_add(place)),
                    left: all - places[0].max(places[1]),
                    pitch: from.pitch,
                    weight: tap.weight,
                    flip: self.flip,
                    start: kept.start,
                    kept: kept.len(),
                    columns: self.columns[columns.clone()].as_ptr(),
                    count: columns.len(),
                    channels,
                    middle: [middle, middle.wrapping_add((T::PARTS - 1) * self.room)],
                    output: to.row(line * self.columns.len() + columns.start),
                    output_pitch: to.pitch,
                };
                // SAFETY: both lines and that of the output are there, as was checked, as is the
                // room; each row and column is within the image, as `new` checked; `best` chose
                // what the machine has.
                unsafe { (self.variant.run)(&work) };
            }
        }
        Ok(())
    }
}

/// Checks places on an axis. What lies between two is computed without a look at its range.
fn check<T: Samples>(taps: &[Tap<T::Weight>], len: usize) -> Result<(), String> {
    for tap in taps {
        let last = tap.first.max(tap.second);
        if last >= len || u32::try_from(last).is_err() {
            return Err(format!("line or column {last} of {len}"));
        }
        if tap.first != tap.second && !tap.weight.is_share() {
            return Err(format!("{tap:?} is not between the two"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
