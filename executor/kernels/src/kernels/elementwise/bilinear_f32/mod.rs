//! Lines of an image between lines and pixels of another one: bilinear interpolation of floats.

mod vectors;

use self::vectors::Vectors;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::rows::Rows;
use crate::tensor::{In, Out};

/// A place between two lines or columns of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap<W = f32> {
    /// The index of the one above, or on the left.
    pub first: usize,
    /// The index of the other.
    pub second: usize,
    /// The weight of the second; the first has the rest, of 1 where it is a float.
    pub weight: W,
}

/// A line of the output and the lines that it is between.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The first pixels of two lines of the input.
    lines: [*const f32; 2],
    /// Floats from one pixel of the input to the next.
    pitch: usize,
    /// The weight of the second line.
    weight: f32,
    columns: *const Tap,
    /// Pixels of the output.
    count: usize,
    /// Floats of a pixel.
    lanes: usize,
    output: *mut f32,
    /// Floats from one pixel of the output to the next.
    output_pitch: usize,
}

/// # Safety
/// The pixels that the columns name and those of the output are there; the machine has the
/// instruction set.
type Run = unsafe fn(&Line);

/// Best first.
const VARIANTS: Variants<Run> = variants!(Vectors, scalar);

/// An interpolation in its best variant.
#[derive(Clone, Debug)]
pub struct Bilinear {
    variant: Variant<Run>,
    lanes: usize,
    width: usize,
    columns: Vec<Tap>,
}

impl Bilinear {
    /// Takes the best variant up to `isa`, for lines of `width` pixels of `lanes` floats each, and
    /// a column of the output for each of `columns`.
    ///
    /// # Errors
    /// A column is outside the line.
    pub fn new(isa: Isa, lanes: usize, width: usize, columns: Vec<Tap>) -> Result<Self, String> {
        match columns.iter().map(|tap| tap.first.max(tap.second)).max() {
            Some(last) if last >= width => Err(format!("column {last} of {width}")),
            _ => Ok(Self { variant: VARIANTS.best(isa), lanes, width, columns }),
        }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Computes line `to` of the output at `tap` of the lines of the input. Lines are counted over
    /// all images; pixels are the rows of either tensor.
    ///
    /// # Errors
    /// A line is not there, or rows are no pixels.
    pub fn compute(
        &self,
        tap: Tap,
        input: Rows<In<'_, f32>>,
        to: usize,
        output: Rows<Out<'_, f32>>,
    ) -> Result<(), String> {
        let Self { variant, lanes, width, ref columns } = *self;
        let count = columns.len();
        let from = input.pitched((tap.first.max(tap.second) + 1) * width, lanes)?;
        let at = output.pitched((to + 1) * count, lanes)?;
        let line = |row: usize| from.start.wrapping_add(row * width * from.pitch);
        let line = Line {
            lines: [line(tap.first), line(tap.second)],
            pitch: from.pitch,
            weight: tap.weight,
            columns: columns.as_ptr(),
            count,
            lanes,
            output: at.start.wrapping_add(to * count * at.pitch),
            output_pitch: at.pitch,
        };
        // SAFETY: both lines and that of the output are there, as was checked, and each column is
        // within `width`, as `new` checked; `best` chose what the machine has.
        unsafe { (variant.run)(&line) };
        Ok(())
    }
}

/// The scalar reference, and the order of products and sums for all: NNAPI's definition.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(line: &Line) {
    let (v, [above, below]) = (line.weight, line.lines);
    for at in 0..line.count {
        // SAFETY: within the columns, and within the pixels that they name.
        unsafe {
            let Tap { first, second, weight: u } = line.columns.add(at).read();
            let [left, right] = [first, second].map(|column| column * line.pitch);
            for lane in 0..line.lanes {
                let read = |line: *const f32, pixel: usize| line.add(pixel + lane).read_unaligned();
                let y = read(above, left) * (1.0 - v) * (1.0 - u)
                    + read(below, left) * v * (1.0 - u)
                    + read(above, right) * (1.0 - v) * u
                    + read(below, right) * v * u;
                line.output.add(at * line.output_pitch + lane).write_unaligned(y);
            }
        }
    }
}

#[cfg(test)]
mod tests;
