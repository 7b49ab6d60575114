//! The functions of a variant with dot products of bytes: the same for every instruction set but
//! for its name, which each of them must state.

/// A variant's kernel and its functions: `vectors` of sums in a panel, `side` panels summed side by
/// side, by up to `rows` rows; `signed` where the instruction takes both sides so.
macro_rules! dot_kernel {
    (
        $isa:ident, $features:literal,
        vectors: $vectors:literal, side: $side:literal, rows: $rows:literal, signed: $signed:literal
    ) => {
        use super::floats::{FloatRow, Floats};
        use super::kernel::{COLUMNS, GemvKernel, Panels};
        use super::panels::{DotSums, Keep, RoundOnce, groups, panels};
        use crate::kernels::round_once_i8::Row;
        use crate::simd::dot::Dot as _;
        use crate::simd::$isa;

        pub(super) const KERNEL: GemvKernel = GemvKernel {
            run,
            single,
            rounded: Some(rounded),
            floats: Some(floats),
            signed: $signed,
            side: $side,
        };

        type Sums = DotSums<$isa, $vectors>;

        #[target_feature(enable = $features)]
        unsafe fn run(all: &Panels) {
            // SAFETY: as the caller promises.
            unsafe {
                let isa = $isa::new_unchecked();
                if !$signed && all.flip == 0 {
                    // Rows that were quantised on the fly: flipping nothing is a fifth of the
                    // vector instructions.
                    panels::<Sums, _, $side, $rows>(isa, &Panels { flip: 0, ..*all }, &Keep);
                } else {
                    panels::<Sums, _, $side, $rows>(isa, all, &Keep);
                }
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn single(all: &Panels) {
            // SAFETY: as the caller promises.
            unsafe { panels::<Sums, _, $side, 1>($isa::new_unchecked(), all, &Keep) };
        }

        #[target_feature(enable = $features)]
        unsafe fn rounded(all: &Panels, row: &Row) {
            // SAFETY: as the caller promises.
            unsafe {
                let isa = $isa::new_unchecked();
                let finish = RoundOnce::new(isa, row);
                let whole = groups::<Sums, _, $side>(isa, all, &finish);
                finish.end(all);
                if whole < all.panels {
                    rest_rounded(&all.behind(whole), &row.behind(whole * COLUMNS));
                }
            }
        }

        /// Fewer panels than are summed side by side. By itself, so that the way to whole groups is
        /// short: a network of small layers spends much of its time on it.
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn rest_rounded(all: &Panels, row: &Row) {
            // SAFETY: as the caller promises.
            unsafe {
                let isa = $isa::new_unchecked();
                let finish = RoundOnce::new(isa, row);
                panels::<Sums, _, $side, 1>(isa, all, &finish);
                finish.end(all);
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn floats(all: &Panels, row: &FloatRow) {
            // SAFETY: as the caller promises.
            unsafe {
                let isa = $isa::new_unchecked();
                let finish = Floats::new(isa.vectors(), row);
                panels::<Sums, _, $side, 1>(isa, all, &finish);
            }
        }
    };
}
pub(super) use dot_kernel;
