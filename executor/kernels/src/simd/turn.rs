//! Squares of bytes and of 32-bit words whose rows become columns.

use super::Isa;
use crate::tensor::{In, Out, check_lengths};

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

/// Turns squares of words as large as vectors.
#[derive(Clone, Copy, Debug)]
pub struct WordSquares {
    run: unsafe fn(*const u32, usize, *mut u32, usize),
    side: usize,
}

impl WordSquares {
    /// Of the widest vectors that there are; `None` where those of four words are.
    pub fn new(isa: Isa) -> Option<Self> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Avx512Vbmi(_) => Some(Self { run: turn_16, side: 16 }),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) | Isa::AvxVnni(_) => Some(Self { run: turn_8, side: 8 }),
            _ => None,
        }
    }

    /// Rows and columns of a square.
    pub fn side(self) -> usize {
        self.side
    }

    /// Writes the columns of a square as rows: its rows begin `distance` apart in the input, those
    /// of the output `pitch`.
    ///
    /// # Errors
    /// The square is not in the input or not in the output.
    #[inline]
    pub fn turn(
        self,
        input: In<'_, u32>,
        distance: usize,
        output: Out<'_, u32>,
        pitch: usize,
    ) -> Result<(), String> {
        let last = self.side - 1;
        check_lengths(input.len(), last * distance + self.side)?;
        check_lengths(output.len(), last * pitch + self.side)?;
        // SAFETY: lengths as checked; `new` knows that the machine has the instruction set.
        unsafe { (self.run)(input.as_ptr(), distance, output.as_mut_ptr(), pitch) };
        Ok(())
    }
}

/// By words, by pairs of words, and twice by quarters of vectors.
///
/// # Safety
/// Rows and columns are there; the machine has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn turn_16(from: *const u32, distance: usize, to: *mut u32, pitch: usize) {
    use std::arch::x86_64::{
        __m512i, _mm512_loadu_si512, _mm512_setzero_si512, _mm512_shuffle_i32x4,
        _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
        _mm512_unpacklo_epi64,
    };
    let mut rows: [__m512i; 16] = [_mm512_setzero_si512(); 16];
    for (at, row) in rows.iter_mut().enumerate() {
        // SAFETY: a row of the square.
        *row = unsafe { _mm512_loadu_si512(from.add(at * distance).cast()) };
    }
    let before = rows;
    for at in (0..16).step_by(2) {
        rows[at] = _mm512_unpacklo_epi32(before[at], before[at + 1]);
        rows[at + 1] = _mm512_unpackhi_epi32(before[at], before[at + 1]);
    }
    let before = rows;
    for at in (0..16).step_by(4) {
        rows[at] = _mm512_unpacklo_epi64(before[at], before[at + 2]);
        rows[at + 1] = _mm512_unpackhi_epi64(before[at], before[at + 2]);
        rows[at + 2] = _mm512_unpacklo_epi64(before[at + 1], before[at + 3]);
        rows[at + 3] = _mm512_unpackhi_epi64(before[at + 1], before[at + 3]);
    }
    for at in 0..4 {
        let [a, b, c, d] = [rows[at], rows[at + 4], rows[at + 8], rows[at + 12]];
        let (low, high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
        let (low_of, high_of) =
            (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
        let columns = [
            _mm512_shuffle_i32x4::<0x88>(low, low_of),
            _mm512_shuffle_i32x4::<0xdd>(low, low_of),
            _mm512_shuffle_i32x4::<0x88>(high, high_of),
            _mm512_shuffle_i32x4::<0xdd>(high, high_of),
        ];
        for (of, column) in columns.into_iter().enumerate() {
            // SAFETY: a column of the square.
            unsafe { _mm512_storeu_si512(to.add((at + 4 * of) * pitch).cast(), column) };
        }
    }
}

/// By words, by pairs of words, and by halves of vectors.
///
/// # Safety
/// Rows and columns are there; the machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn turn_8(from: *const u32, distance: usize, to: *mut u32, pitch: usize) {
    use std::arch::x86_64::{
        __m256i, _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_setzero_si256,
        _mm256_storeu_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
        _mm256_unpacklo_epi64,
    };
    let mut rows: [__m256i; 8] = [_mm256_setzero_si256(); 8];
    for (at, row) in rows.iter_mut().enumerate() {
        // SAFETY: a row of the square.
        *row = unsafe { _mm256_loadu_si256(from.add(at * distance).cast()) };
    }
    let before = rows;
    for at in (0..8).step_by(2) {
        rows[at] = _mm256_unpacklo_epi32(before[at], before[at + 1]);
        rows[at + 1] = _mm256_unpackhi_epi32(before[at], before[at + 1]);
    }
    let before = rows;
    for at in (0..8).step_by(4) {
        rows[at] = _mm256_unpacklo_epi64(before[at], before[at + 2]);
        rows[at + 1] = _mm256_unpackhi_epi64(before[at], before[at + 2]);
        rows[at + 2] = _mm256_unpacklo_epi64(before[at + 1], before[at + 3]);
        rows[at + 3] = _mm256_unpackhi_epi64(before[at + 1], before[at + 3]);
    }
    for at in 0..4 {
        let (a, b) = (rows[at], rows[at + 4]);
        // SAFETY: columns of the square.
        unsafe {
            let low = _mm256_permute2x128_si256::<0x20>(a, b);
            _mm256_storeu_si256(to.add(at * pitch).cast(), low);
            let high = _mm256_permute2x128_si256::<0x31>(a, b);
            _mm256_storeu_si256(to.add((at + 4) * pitch).cast(), high);
        }
    }
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

    #[test]
    fn squares_as_large_as_vectors_are_turned() {
        let input: Vec<u32> = (0..40 * 16).collect();
        for squares in Isa::all().filter_map(WordSquares::new) {
            let (side, mut output) = (squares.side(), vec![0; 20 * 16]);
            squares.turn(In::of(&input), 37, Out::of(&mut output), 19).unwrap();
            for row in 0..side {
                let want: Vec<u32> = (0..side).map(|at| input[at * 37 + row]).collect();
                assert_eq!(output[row * 19..][..side], want, "row {row} of {side}");
            }
            assert!(squares.turn(In::of(&input[..8]), 37, Out::of(&mut output), 19).is_err());
            assert!(squares.turn(In::of(&input), 37, Out::of(&mut output[..64]), 19).is_err());
        }
    }
}
