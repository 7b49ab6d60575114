//! Squares of bytes and of 32-bit words whose rows become columns.

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

/// Rows and columns of a square of words.
pub const WORDS: usize = 4;

/// The columns of four rows of four words: two steps, as for bytes.
#[inline(always)]
pub fn turned_words(rows: [[u32; WORDS]; WORDS]) -> [[u32; WORDS]; WORDS] {
    let [a, b, c, d]: [WordVector; WORDS] = bytemuck::cast(rows);
    let ((a, b), (c, d)) = (interleaved_words(a, c), interleaved_words(b, d));
    let ((a, b), (c, d)) = (interleaved_words(a, c), interleaved_words(b, d));
    bytemuck::cast([a, b, c, d])
}

#[cfg(target_arch = "x86_64")]
type WordVector = Vector;

/// The words of two vectors in turns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn interleaved_words(a: Vector, b: Vector) -> (Vector, Vector) {
    use std::arch::x86_64::{_mm_unpackhi_epi32, _mm_unpacklo_epi32};
    // SAFETY: every machine of the architecture has SSE2.
    unsafe { (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)) }
}

#[cfg(not(target_arch = "x86_64"))]
type WordVector = [u32; WORDS];

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn interleaved_words(a: WordVector, b: WordVector) -> (WordVector, WordVector) {
    ([a[0], b[0], a[1], b[1]], [a[2], b[2], a[3], b[3]])
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
    fn rows_of_words_become_columns() {
        let rows: [[u32; 4]; 4] = std::array::from_fn(|row| {
            std::array::from_fn(|column| u32::try_from(row * 4 + column).unwrap())
        });
        let columns: [[u32; 4]; 4] =
            std::array::from_fn(|column| std::array::from_fn(|row| rows[row][column]));
        assert_eq!(turned_words(rows), columns);
    }

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
