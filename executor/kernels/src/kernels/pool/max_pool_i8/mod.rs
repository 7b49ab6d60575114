//! The largest byte of each window, signed or not.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;

use super::pool_windows::{PoolWindows, WindowPart};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, Out};

/// A part of the windows, and the range of results.
#[derive(Clone, Copy, Debug)]
struct Pooled {
    /// ByteVector as they are stored.
    part: WindowPart<u8>,
    low: u8,
    high: u8,
}

/// # Safety
/// The elements of the windows are readable, their results writable; the machine has the
/// instruction set.
type Run = unsafe fn(&Pooled);

/// Best first.
#[rustfmt::skip]
const fn variants_of(is_signed: bool) -> Variants<Run> {
    match is_signed {
        true => variants! {
            Avx512: avx512::run::<true>,
            Avx2: avx2::run::<true>,
            Neon: neon::run::<true>,
            Scalar: scalar::<true>,
        },
        false => variants! {
            Avx512: avx512::run::<false>,
            Avx2: avx2::run::<false>,
            Neon: neon::run::<false>,
            Scalar: scalar::<false>,
        },
    }
}

/// Pooling of bytes in its best variant.
#[derive(Clone, Copy, Debug)]
pub struct MaxPool {
    variant: Variant<Run>,
    range: (u8, u8),
}

impl MaxPool {
    /// Takes the best variant up to `isa`; results are within `range`. All bytes are as they are
    /// stored, signed ones as well.
    pub fn new(isa: Isa, is_signed: bool, range: (u8, u8)) -> Self {
        Self { variant: variants_of(is_signed).best(isa), range }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Computes the results of windows; `input` and `output` begin with the first window's first
    /// byte and result, as they are stored.
    ///
    /// # Errors
    /// The windows are over other elements than there are, or the run is to end.
    pub fn compute(
        &self,
        windows: PoolWindows,
        input: In<'_, u8>,
        output: Out<'_, u8>,
    ) -> Result<(), String> {
        let (low, high) = self.range;
        windows.each_part(input, output, |&part| {
            // SAFETY: the parts are of elements that are there; `best` chose what the machine has.
            unsafe { (self.variant.run)(&Pooled { part, low, high }) };
        })
    }
}

/// The bit that makes signed bytes an order of unsigned ones.
const fn flip(is_signed: bool) -> u8 {
    if is_signed { 0x80 } else { 0 }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar<const SIGNED: bool>(&Pooled { part, low, high }: &Pooled) {
    let (windows, flip) = (part.windows, flip(SIGNED));
    for (window, lane) in
        (0..windows.count).flat_map(|window| (0..windows.lanes).map(move |lane| (window, lane)))
    {
        let first = part.input.wrapping_add(window * windows.distance + lane);
        // SAFETY: within the results, and within the windows.
        unsafe {
            let to = part.output.add(window * windows.pitch + lane);
            let mut largest = if part.begins { 0 } else { to.read() ^ flip };
            for row in 0..windows.rows {
                for column in 0..windows.columns {
                    let at = row * windows.line + column * windows.column;
                    largest = largest.max(first.wrapping_add(at).read() ^ flip);
                }
            }
            if part.ends {
                largest = largest.max(low ^ flip).min(high ^ flip);
            }
            to.write(largest ^ flip);
        }
    }
}

#[cfg(test)]
mod tests;
