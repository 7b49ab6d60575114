//! Tiles of up to sixteen windows by sixteen columns with `tdpbusd`, which multiplies sixty-four
//! bytes of each window at once. Panels are those of AVX-512: a tile of weights is a vector of
//! sixteen of their lines. What would leave tiles all but empty is left to `vpdpbusd`.
//!
//! ```text
//!   windows, 64 bytes each ──tileloadd──► tmm4 ┐
//!   lines of weights ───────tileloadd──► tmm5 ─┴─tdpbusd─► tmm0 to tmm3: sums, one for each vector
//! ```
//!
//! Windows whose segments are no whole tiles, or whose bits have to be flipped, are copied first.

use core::arch::asm;
use core::arch::x86_64::{
    _mm512_maskz_loadu_epi8, _mm512_set1_epi8, _mm512_storeu_si512, _mm512_xor_si512,
};
use std::mem::MaybeUninit;

use super::avx512;
use super::kernel::{Microkernel, Run};
use super::tile::finish;
use crate::simd::tiles::{CHUNK, PRODUCT, ROWS, Tiles, WORDS};
use crate::simd::vector_i32::{I32Simd, I32x16};
use crate::simd::{Amx, Avx512};

pub(super) const KERNEL: Microkernel = Microkernel { run, ..avx512::KERNEL };

/// Bytes of a window that may be copied.
const COPIED: usize = 2048;

/// From one copy to the next: beside others, as segments are stored by whole vectors.
const PITCH: usize = COPIED + CHUNK;

/// Windows whose sums are finished together: the least of a tile.
const TOGETHER: usize = 4;

/// Cycles, about, of the way of a tile's sums through memory, and of configuring tiles and letting
/// them go.
const TILE: usize = 250;
const RUN: usize = 2000;

unsafe fn run(run: &Run) {
    let tiles = Amx::detect().and_then(|amx| Cut::of(amx, run));
    // SAFETY: as the caller promises; each arm differs in the width of panels alone.
    unsafe {
        match (tiles, run.columns.div_ceil(I32x16::LANES)) {
            (None, _) => avx512::run(run),
            (Some(tiles), 4..) => tiles.run::<4>(run),
            (Some(tiles), 3) => tiles.run::<3>(run),
            (Some(tiles), 2) => tiles.run::<2>(run),
            (Some(tiles), _) => tiles.run::<1>(run),
        }
    }
}

/// How a run is cut into tiles.
#[derive(Clone, Copy)]
struct Cut {
    amx: Amx,
    /// Of windows, of which the last overlap those before, by words of a segment, or of a copied
    /// window.
    tiles: Tiles,
    /// True if windows are copied ahead.
    copied: bool,
}

/// Accumulators of a tile, a row of a panel behind the other.
#[repr(align(64))]
struct Sums([MaybeUninit<i32>; ROWS * 4 * I32x16::LANES]);

#[repr(align(64))]
struct Copies([MaybeUninit<u8>; ROWS * PITCH]);

impl Cut {
    /// `None` where `vpdpbusd` is as quick, or there is too much to copy.
    fn of(amx: Amx, run: &Run) -> Option<Self> {
        let words = run.segment_count * run.words;
        let beside = run.rows.div_ceil(ROWS);
        let height = run.rows.div_ceil(beside);
        if run.rest_count > 0 || height < TOGETHER {
            return None;
        }
        let copied = run.flip != 0 || !run.words.is_multiple_of(WORDS);
        if copied && 4 * words > COPIED {
            return None;
        }
        // Two vectors of products begin in a cycle.
        let vectors = run.columns.div_ceil(I32x16::LANES);
        let without = height * words * vectors / 2;
        let stores = height * run.segment_count * run.words.div_ceil(WORDS);
        let with =
            TILE + PRODUCT * vectors * words.div_ceil(WORDS) + if copied { 2 * stores } else { 0 };
        if without.saturating_sub(with) * beside * run.lines < RUN {
            return None;
        }
        let each = if copied { words } else { run.words };
        Some(Self { amx, tiles: Tiles::new(height, each), copied })
    }

    /// # Safety
    /// As for [`Microkernel::run`]; the panel is so many vectors wide, and the process may use
    /// tiles.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn run<const VECTORS: usize>(self, run: &Run) {
        let mut sums = Sums([const { MaybeUninit::uninit() }; _]);
        let mut copies = Copies([const { MaybeUninit::uninit() }; _]);
        // SAFETY: a height that `of` made sure of; `tile` alone takes tiles.
        let _configured = unsafe { self.tiles.configure(self.amx) };
        let (mut line, height) = (*run, self.tiles.height);
        loop {
            for first in (0..run.rows).step_by(height) {
                let first = first.min(run.rows - height);
                // SAFETY: windows of the line.
                unsafe { self.tile::<VECTORS>(&line, first, &mut sums, &mut copies) };
            }
            if line.lines == 1 {
                break;
            }
            line = line.next_line();
        }
    }

    /// # Safety
    /// As for [`Cut::run`]; the windows are there, and tiles are configured.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn tile<const VECTORS: usize>(
        self,
        run: &Run,
        first: usize,
        sums: &mut Sums,
        copies: &mut Copies,
    ) {
        let whole = [0];
        let (mut input, mut segments) = (run.input.wrapping_add(first * run.step), run.segments);
        let (mut step, mut count) = (run.step, run.segment_count);
        if self.copied {
            let to = copies.0.as_mut_ptr().cast::<u8>();
            // SAFETY: windows of the run; they fit the room.
            unsafe { copy(run, input, self.tiles.height, to) };
            (input, segments, step, count) = (to.cast_const(), whole.as_ptr(), PITCH, 1);
        }
        let to = sums.0.as_mut_ptr().cast::<i32>();
        let line = VECTORS * I32x16::LANES * size_of::<i32>();
        macro_rules! multiply {
            ($($sums:literal at $byte:literal),*) => {
                asm!(
                    // A line of bias for each row.
                    "xor {n:e}, {n:e}",
                    $(concat!("tileloadd ", $sums, ", [{w} + {n}*1 + ", $byte, "]"),)*
                    "add {w}, {line}",
                    "2:",
                    "mov {a}, [{segments}]",
                    "add {a}, {input}",
                    "add {segments}, 8",
                    "mov {n}, {chunks}",
                    "test {n}, {n}",
                    "jz 4f",
                    "3:",
                    "tileloadd tmm4, [{a} + {step}*1]",
                    $(
                        concat!("tileloadd tmm5, [{w} + {line}*1 + ", $byte, "]"),
                        concat!("tdpbusd ", $sums, ", tmm4, tmm5"),
                    )*
                    "add {a}, 64",
                    "add {w}, {lines}",
                    "dec {n}",
                    "jnz 3b",
                    "4:",
                    "dec {count}",
                    "jnz 2b",
                    "test {tail}, {tail}",
                    "jz 5f",
                    "tileloadd tmm6, [{a} + {step}*1]",
                    $(
                        concat!("tileloadd tmm7, [{w} + {line}*1 + ", $byte, "]"),
                        concat!("tdpbusd ", $sums, ", tmm6, tmm7"),
                    )*
                    "5:",
                    "mov {n:e}, 256",
                    $(concat!("tilestored [{to} + {n}*1 + ", $byte, "], ", $sums),)*
                    w = inout(reg) run.weights => _,
                    segments = inout(reg) segments => _,
                    count = inout(reg) count => _,
                    a = out(reg) _,
                    n = out(reg) _,
                    input = in(reg) input,
                    step = in(reg) step,
                    line = in(reg) line,
                    lines = in(reg) WORDS * line,
                    chunks = in(reg) self.tiles.chunks,
                    tail = in(reg) self.tiles.tail,
                    to = in(reg) to,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                )
            };
        }
        // SAFETY: a line of bias, then one of weights for each word of the windows, all as wide as
        // the panel; so many windows of so many words; room for the sums of sixteen rows.
        unsafe {
            match VECTORS {
                1 => multiply!("tmm0" at 0),
                2 => multiply!("tmm0" at 0, "tmm1" at 64),
                3 => multiply!("tmm0" at 0, "tmm1" at 64, "tmm2" at 128),
                _ => multiply!("tmm0" at 0, "tmm1" at 64, "tmm2" at 128, "tmm3" at 192),
            }
        }
        // SAFETY: `Amx` is more than AVX-512.
        let isa = unsafe { Avx512::new_unchecked() };
        for row in (0..self.tiles.height).step_by(TOGETHER) {
            let row = row.min(self.tiles.height - TOGETHER);
            let mut some = [[I32x16::splat(isa, 0); VECTORS]; TOGETHER];
            for (at, vector) in some.as_flattened_mut().iter_mut().enumerate() {
                let from = (row + at / VECTORS) * 4 * I32x16::LANES + at % VECTORS * I32x16::LANES;
                // SAFETY: sums of the tile.
                *vector = unsafe { I32x16::load(isa, to.wrapping_add(from)) };
            }
            // SAFETY: rows of the run, whose panel is so wide.
            unsafe { finish::<Avx512, TOGETHER, VECTORS>(isa, run, &(), first + row, some) };
        }
    }
}

/// Copies so many windows, the first of which is at `from`: their segments, one behind the other.
///
/// # Safety
/// The windows are readable; behind `to` is room for each of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn copy(run: &Run, from: *const u8, height: usize, to: *mut u8) {
    let flip = _mm512_set1_epi8(run.flip.cast_signed());
    let bytes = 4 * run.words;
    for row in 0..height {
        let from = from.wrapping_add(row * run.step);
        let mut to = to.wrapping_add(row * PITCH);
        for segment in 0..run.segment_count {
            // SAFETY: there is such a segment.
            let from = from.wrapping_add(unsafe { *run.segments.add(segment) });
            for at in (0..bytes).step_by(CHUNK) {
                let there = avx512::mask(bytes - at);
                // SAFETY: bytes behind the segment are masked out; what is stored beyond it is
                // written over, or lies between the copies.
                unsafe {
                    let x = _mm512_maskz_loadu_epi8(there, from.wrapping_add(at).cast());
                    let x = _mm512_xor_si512(x, flip);
                    _mm512_storeu_si512(to.wrapping_add(at).cast(), x);
                }
            }
            to = to.wrapping_add(bytes);
        }
    }
}
