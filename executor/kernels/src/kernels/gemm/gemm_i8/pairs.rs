//! Two neighbouring windows as one: where the columns fill but half of a last vector, twice as many
//! fill it.
//!
//! ```text
//!   8 columns, windows 3 wide, 2 apart    16 columns, windows 5 wide, 4 apart
//!   a b c                                 a b c 0 0  ► the first window's columns
//!       a b c                             0 0 a b c  ► the second's
//! ```
//!
//! The output is the same in memory. Weights that are added stand for 0, so sums are the same.

use super::kernel::{Bytes, Microkernel};
use super::packing::Unpacked;
use crate::kernels::patches::Patches;

/// The weights of two windows.
pub(super) struct Pairs {
    pub(super) patches: Patches,
    pub(super) weights: Vec<u8>,
    pub(super) bias: Vec<i32>,
}

impl Pairs {
    /// `None` where windows don't come in pairs, or gain nothing as such.
    pub(super) fn new(
        kernel: &Microkernel,
        patches: &Patches,
        rows: &Unpacked<'_>,
    ) -> Option<Self> {
        let p = patches;
        let paired = Patches {
            filter_w: p.filter_w + p.stride_w,
            stride_w: 2 * p.stride_w,
            out_width: p.out_width / 2,
            ..*p
        };
        let columns = rows.bias.len();
        let fits = p.out_width.is_multiple_of(2) && p.dilation_w == 1 && p.filter_w > 1;
        if !fits || cost(kernel, &paired, 2 * columns) >= 2 * cost(kernel, p, columns) {
            return None;
        }
        let (line, wide) = (p.filter_w * p.channels, paired.filter_w * p.channels);
        let mut weights = vec![zero(rows.quantised); 2 * columns * paired.depth()];
        let (first, second) = weights.split_at_mut(columns * paired.depth());
        for (half, shift) in [(first, 0), (second, p.stride_w * p.channels)] {
            let lines = rows.weights.chunks_exact(line);
            for (to, from) in half.chunks_exact_mut(wide).zip(lines) {
                to[shift..][..line].copy_from_slice(from);
            }
        }
        Some(Self { patches: paired, weights, bias: [rows.bias, rows.bias].concat() })
    }
}

/// Steps of a window: a product per word and vector of columns, and about four more to bring that
/// to bytes.
fn cost(kernel: &Microkernel, p: &Patches, columns: usize) -> usize {
    let words = p.filter_h * (p.filter_w * p.channels).div_ceil(kernel.encoding.per_word());
    columns.div_ceil(kernel.lanes) * (words + 4)
}

/// The stored weight that stands for 0.
fn zero(bytes: Bytes) -> u8 {
    bytes.zero_point.to_le_bytes()[0] ^ bytes.flip
}
