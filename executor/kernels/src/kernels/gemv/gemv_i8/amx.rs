//! Tiles of up to sixteen rows by sixteen columns with `tdpbusd`, which multiplies sixty-four bytes
//! of each row at once. Weights and sums lie as those of AVX-512 do: a tile of weights is sixteen
//! lines of a panel. What would leave tiles all but empty is left to `vpdpbusd`.
//!
//! ```text
//!   sixteen rows ──tmm4──► panel  tmm0 │ tmm1 │ tmm2 │ tmm3      few rows: each line comes once
//!   rows of two tiles ──tmm4──► panels tmm0 │ tmm1               many: half as many lines come
//!                       tmm4──►        tmm2 │ tmm3               from L2 for each row
//! ```

use core::arch::asm;

use super::avx512;
use super::kernel::{COLUMNS, DEPTH, GemvKernel, Panels};
use crate::simd::Amx;
use crate::simd::tiles::{PRODUCT, ROWS, Tiles, WORDS};

pub(super) const KERNEL: GemvKernel = GemvKernel { run, ..avx512::KERNEL };

/// The fewest rows that are worth a tile.
const FEWEST: usize = 4;

/// Cycles, about, of loading and storing a tile's sums, and of configuring tiles and letting them
/// go.
const TILE: usize = 40;
const RUN: usize = 2000;

/// Bytes of a line of a panel, and of as many sums.
const LINE: usize = COLUMNS * DEPTH;

unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe {
        match Amx::detect().and_then(|amx| Some((amx, cut(all)?))) {
            Some((amx, tiles)) => multiply(amx, tiles, all),
            None => (avx512::KERNEL.run)(all),
        }
    }
}

/// How rows are cut into tiles, of which the last overlap those before; `None` where `vpdpbusd` is
/// as quick.
fn cut(all: &Panels) -> Option<Tiles> {
    if all.rows < FEWEST || all.flip != 0 {
        return None;
    }
    let beside = match all.rows.div_ceil(ROWS) {
        1 => 1,
        beside => beside.next_multiple_of(2),
    };
    // Two vectors of products begin in a cycle.
    let without = all.rows * all.words * all.panels / 2;
    let with = beside * all.panels * (PRODUCT * all.words.div_ceil(WORDS) + TILE);
    let pays = without.saturating_sub(with) >= RUN;
    pays.then(|| Tiles::new(all.rows.div_ceil(beside), all.words))
}

/// # Safety
/// As for [`GemvKernel::run`]; `tiles` are those of `cut`.
unsafe fn multiply(amx: Amx, tiles: Tiles, all: &Panels) {
    let side = KERNEL.side;
    // SAFETY: a height that `cut` made sure of; nothing below takes tiles but `tile`.
    let _configured = unsafe { tiles.configure(amx) };
    let pairs = all.rows > tiles.height;
    for first in (0..all.panels).step_by(side) {
        let together = side.min(all.panels - first);
        let group = all.weights.wrapping_add(first * all.words * LINE);
        let (mut at, widest) = (0, if pairs { 2 } else { 4 });
        while at < together {
            let count = widest.min(together - at);
            let column = (first + at) * COLUMNS;
            let mut row = 0;
            while row < all.rows {
                let other = (row + tiles.height).min(all.rows - tiles.height);
                let place = |row: usize| {
                    let sums = all.sums.wrapping_add(row * all.row_sums + column);
                    Place { bytes: all.row.wrapping_add(row * all.words), sums }
                };
                let tile = Tile {
                    places: [place(row.min(all.rows - tiles.height)), place(other)],
                    weights: group.wrapping_add(at * LINE),
                    start: all.start.wrapping_add(column),
                    line: together * LINE,
                    row: all.words * DEPTH,
                    sums: all.row_sums * size_of::<i32>(),
                };
                // SAFETY: rows and panels that are there.
                unsafe {
                    match (pairs, count) {
                        (true, 2) => tile.two_by_two(tiles),
                        (true, _) => tile.two_by_one(tiles),
                        (false, 4) => tile.one_by_four(tiles),
                        (false, 3) => tile.one_by_three(tiles),
                        (false, 2) => tile.one_by_two(tiles),
                        (false, _) => tile.one_by_one(tiles),
                    }
                }
                row += if pairs { 2 * tiles.height } else { tiles.height };
            }
            at += count;
        }
    }
}

/// Where the rows of a tile lie, and their sums.
#[derive(Clone, Copy)]
struct Place {
    bytes: *const u32,
    sums: *mut i32,
}

/// Panels beside each other by the rows of a tile, or of two.
struct Tile {
    places: [Place; 2],
    weights: *const i8,
    start: *const i32,
    /// Bytes from a line of weights, a row, and the sums of a row to the next.
    line: usize,
    row: usize,
    sums: usize,
}

/// A function for the panels at these bytes, by one tile of rows or by two: then `$second` are the
/// sums of the second, the last panel's first, whose weights are there already.
macro_rules! products {
    ($name:ident: $($sums:literal at $at:literal),+ $(; $second_sums:literal at $second_at:literal $(, $others:literal at $other_at:literal)*)?) => {
        /// # Safety
        /// So many rows and panels are there, and tiles are configured.
        #[inline]
        unsafe fn $name(&self, tiles: Tiles) {
            let [first, second] = self.places;
            let _ = second;
            // SAFETY: as the caller promises.
            unsafe {
                asm!(
                    "xor {n:e}, {n:e}",
                    // A line of what sums start with for each row.
                    $(concat!("tileloadd ", $sums, ", [{start} + {n}*1 + ", $at, "]"),)+
                    $(
                        concat!("tileloadd ", $second_sums, ", [{start} + {n}*1 + ", $second_at, "]"),
                        $(concat!("tileloadd ", $others, ", [{start} + {n}*1 + ", $other_at, "]"),)*
                    )?
                    "mov {n}, {chunks}",
                    "test {n}, {n}",
                    "jz 3f",
                    "2:",
                    "tileloadd tmm4, [{a} + {row}*1]",
                    $(
                        concat!("tileloadd tmm5, [{w} + {line}*1 + ", $at, "]"),
                        concat!("tdpbusd ", $sums, ", tmm4, tmm5"),
                    )+
                    $(
                        "tileloadd tmm4, [{b} + {row}*1]",
                        concat!("tdpbusd ", $second_sums, ", tmm4, tmm5"),
                        $(
                            concat!("tileloadd tmm5, [{w} + {line}*1 + ", $other_at, "]"),
                            concat!("tdpbusd ", $others, ", tmm4, tmm5"),
                        )*
                        "add {b}, 64",
                    )?
                    "add {a}, 64",
                    "add {w}, {lines}",
                    "dec {n}",
                    "jnz 2b",
                    "3:",
                    "test {tail}, {tail}",
                    "jz 4f",
                    "tileloadd tmm6, [{a} + {row}*1]",
                    $(
                        concat!("tileloadd tmm7, [{w} + {line}*1 + ", $at, "]"),
                        concat!("tdpbusd ", $sums, ", tmm6, tmm7"),
                    )+
                    $(
                        "tileloadd tmm6, [{b} + {row}*1]",
                        concat!("tdpbusd ", $second_sums, ", tmm6, tmm7"),
                        $(
                            concat!("tileloadd tmm7, [{w} + {line}*1 + ", $other_at, "]"),
                            concat!("tdpbusd ", $others, ", tmm6, tmm7"),
                        )*
                    )?
                    "4:",
                    $(concat!("tilestored [{to} + {sums}*1 + ", $at, "], ", $sums),)+
                    $(
                        "mov {to}, {second_to}",
                        concat!("tilestored [{to} + {sums}*1 + ", $second_at, "], ", $second_sums),
                        $(concat!("tilestored [{to} + {sums}*1 + ", $other_at, "], ", $others),)*
                    )?
                    n = out(reg) _,
                    w = inout(reg) self.weights => _,
                    a = inout(reg) first.bytes => _,
                    to = inout(reg) first.sums => _,
                    $(
                        // Named after what is there for two tiles alone.
                        b = inout(reg) second.bytes => _,
                        second_to = in(reg) { let _ = $second_at; second.sums },
                    )?
                    start = in(reg) self.start,
                    line = in(reg) self.line,
                    lines = in(reg) WORDS * self.line,
                    row = in(reg) self.row,
                    sums = in(reg) self.sums,
                    chunks = in(reg) tiles.chunks,
                    tail = in(reg) tiles.tail,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                )
            };
        }
    };
}

impl Tile {
    products!(one_by_one: "tmm0" at 0);
    products!(one_by_two: "tmm0" at 0, "tmm1" at 64);
    products!(one_by_three: "tmm0" at 0, "tmm1" at 64, "tmm2" at 128);
    products!(one_by_four: "tmm0" at 0, "tmm1" at 64, "tmm2" at 128, "tmm3" at 192);
    products!(two_by_one: "tmm0" at 0; "tmm2" at 0);
    products!(two_by_two: "tmm0" at 0, "tmm1" at 64; "tmm3" at 64, "tmm2" at 0);
}
