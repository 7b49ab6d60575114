//! Squares of bytes whose rows become columns.

/// Rows and columns of a square.
pub const SIDE: usize = 16;

/// The columns of sixteen rows of sixteen bytes. Each step interleaves the rows with those eight
/// behind them, which turns the numbers of all bytes, row and column in one, by a bit: after four,
/// row and column have changed places.
#[inline(always)]
pub fn turned(rows: [[u8; SIDE]; SIDE]) -> [[u8; SIDE]; SIDE] {
    let mut vectors: [Vector; SIDE] = bytemuck::cast(rows);
    for _ in 0..SIDE.ilog2() {
        let before = vectors;
        for at in 0..SIDE / 2 {
            let (a, b) = (before[at], before[at + SIDE / 2]);
            (vectors[2 * at], vectors[2 * at + 1]) = interleaved(a, b);
        }
    }
    bytemuck::cast(vectors)
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128i as Vector;

/// The bytes of two vectors in turns: of their first halves and of their second ones.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn interleaved(a: Vector, b: Vector) -> (Vector, Vector) {
    use std::arch::x86_64::{_mm_unpackhi_epi8, _mm_unpacklo_epi8};
    // SAFETY: every machine of the architecture has SSE2.
    unsafe { (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)) }
}

#[cfg(not(target_arch = "x86_64"))]
type Vector = [u8; SIDE];

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn interleaved(a: Vector, b: Vector) -> (Vector, Vector) {
    let half = |first: usize| {
        std::array::from_fn(|at| if at % 2 == 0 { a[first + at / 2] } else { b[first + at / 2] })
    };
    (half(0), half(SIDE / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let byte = |row, column| u8::try_from(row * SIDE + column).unwrap();
        let rows: [[u8; SIDE]; SIDE] =
            std::array::from_fn(|row| std::array::from_fn(|column| byte(row, column)));
        let columns = turned(rows);
        for (row, column) in (0..SIDE).flat_map(|row| (0..SIDE).map(move |column| (row, column))) {
            assert_eq!(columns[column][row], rows[row][column]);
        }
    }
}
