//! Tiles of AMX as products of bytes take them: sums in `tmm0` to `tmm3`, rows of bytes in `tmm4`,
//! lines of weights in `tmm5`, and what is behind whole tiles of either in `tmm6` and `tmm7`.

use core::arch::asm;

use super::Amx;

/// Rows of a tile at most.
pub(crate) const ROWS: usize = 16;

/// Words of four bytes that are multiplied at once.
pub(crate) const WORDS: usize = 16;

/// Bytes of such words, and of a line of a tile of sums or weights.
pub(crate) const CHUNK: usize = 4 * WORDS;

/// Cycles of a product of tiles, about.
pub(crate) const PRODUCT: usize = 16;

/// Shapes of tiles.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    /// Rows of each.
    pub(crate) height: usize,
    /// Whole tiles of words that a row has.
    pub(crate) chunks: usize,
    /// Words behind those.
    pub(crate) tail: usize,
}

impl Tiles {
    /// Tiles of so many rows of so many words.
    pub(crate) fn new(height: usize, words: usize) -> Self {
        Self { height, chunks: words / WORDS, tail: words % WORDS }
    }

    /// Configures tiles of these shapes.
    ///
    /// # Safety
    /// There are one to [`ROWS`] rows. No other code that takes tiles runs on this thread until
    /// what is returned is dropped.
    #[inline(always)]
    pub(crate) unsafe fn configure(self, _: Amx) -> Configured {
        let shapes = self.shapes();
        // SAFETY: a configuration that the instruction set has, and nobody else has one.
        unsafe { asm!("ldtilecfg [{}]", in(reg) shapes.as_ptr(), options(nostack, readonly)) };
        Configured
    }

    /// As `ldtilecfg` takes them.
    fn shapes(self) -> [u8; 64] {
        let mut shapes = [0; 64];
        shapes[0] = 1;
        let byte = |count: usize| count.to_le_bytes()[0];
        let (height, width) = (byte(self.height), byte(CHUNK));
        let all = [(height, width); 5].into_iter().chain([(byte(WORDS), width)]);
        let tails = [(height, byte(4 * self.tail)), (byte(self.tail), width)];
        let tails = tails.into_iter().filter(|_| self.tail > 0);
        for (at, (rows, bytes)) in all.chain(tails).enumerate() {
            shapes[16 + 2 * at] = bytes;
            shapes[48 + at] = rows;
        }
        shapes
    }
}

/// Tiles that are let go when this is dropped: they cost a thread more to be switched.
pub(crate) struct Configured;

impl Drop for Configured {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: nobody takes them any more.
        unsafe { asm!("tilerelease", options(nomem, nostack)) };
    }
}
