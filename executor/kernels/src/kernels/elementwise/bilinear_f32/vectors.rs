//! Pixel by pixel, a vector of its floats at a time; the last few are part of one.

use super::{Line, Tap};
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Kernel, Simd};

pub(super) struct Vectors;

impl Kernel for Vectors {
    type Work = Line;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, line: &Line) {
        // SAFETY: as the caller promises.
        unsafe { pixels::<S::F32>(isa, line) };
    }
}

/// Pointers to the same float of the four pixels around one of the output, and of that.
#[derive(Clone, Copy)]
struct Place {
    around: [*const f32; 4],
    to: *mut f32,
}

/// The factors of the four pixels, by lines and by columns.
#[derive(Clone, Copy)]
struct Factors<V> {
    lines: [V; 2],
    columns: [V; 2],
}

/// # Safety
/// As for the line.
#[inline(always)]
unsafe fn pixels<V: F32Simd>(isa: V::Isa, line: &Line) {
    let whole = line.lanes / V::LANES * V::LANES;
    let rest = line.lanes - whole;
    let [above, below] = line.lines;
    let lines = [V::splat(isa, 1.0 - line.weight), V::splat(isa, line.weight)];
    for at in 0..line.count {
        // SAFETY: within the columns, and within the pixels that they name: whole vectors, and of
        // the last one the floats that are left.
        unsafe {
            let Tap { first, second, weight } = line.columns.add(at).read();
            let (left, right) = (first * line.pitch, second * line.pitch);
            let columns = [V::splat(isa, 1.0 - weight), V::splat(isa, weight)];
            let factors = Factors { lines, columns };
            let around = [above.add(left), below.add(left), above.add(right), below.add(right)];
            let place = Place { around, to: line.output.add(at * line.output_pitch) };
            for lane in (0..whole).step_by(V::LANES) {
                let [a, b, c, d] = place.around;
                let [a, b] = [V::load(isa, a.add(lane)), V::load(isa, b.add(lane))];
                let [c, d] = [V::load(isa, c.add(lane)), V::load(isa, d.add(lane))];
                between([a, b, c, d], factors).store(place.to.add(lane));
            }
            if rest > 0 {
                let [a, b, c, d] = place.around;
                let a = V::load_first(isa, a.add(whole), rest);
                let b = V::load_first(isa, b.add(whole), rest);
                let c = V::load_first(isa, c.add(whole), rest);
                let d = V::load_first(isa, d.add(whole), rest);
                between([a, b, c, d], factors).store_first(place.to.add(whole), rest);
            }
        }
    }
}

/// Between four pixels: above and below on the left, then on the right.
#[inline(always)]
fn between<V: F32Simd>([a, b, c, d]: [V; 4], factors: Factors<V>) -> V {
    let Factors { lines: [upper, lower], columns: [left, right] } = factors;
    let (a, b) = (a.mul(upper).mul(left), b.mul(lower).mul(left));
    let (c, d) = (c.mul(upper).mul(right), d.mul(lower).mul(right));
    a.add(b).add(c).add(d)
}
