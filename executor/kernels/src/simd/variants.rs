//! Kernels of which there is a variant for each instruction set that gains by one.

use super::Isa;

/// A variant of a kernel that this machine can run.
#[derive(Clone, Copy, Debug)]
pub struct Variant<T> {
    /// The instruction set, proved.
    pub isa: Isa,
    /// The kernel, or a table of its functions.
    pub run: T,
}

/// The variants of a kernel, best first; the last is the scalar one.
#[derive(Clone, Copy, Debug)]
pub struct Variants<T: 'static>(pub(crate) &'static [TableRow<T>]);

/// A variant, and the instruction set that it is for, if the machine has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableRow<T> {
    pub(crate) detect: fn() -> Option<Isa>,
    pub(crate) run: T,
}

impl<T: Copy> Variants<T> {
    /// The variants that this machine can run, best first.
    pub fn all(self) -> impl Iterator<Item = Variant<T>> {
        let detected = |row: &TableRow<T>| Some(Variant { isa: (row.detect)()?, run: row.run });
        self.0.iter().filter_map(detected)
    }

    /// The best variant for an instruction set no better than `most`.
    pub(crate) fn best(self, most: Isa) -> Variant<T> {
        // The table is never empty: its last row is the scalar variant.
        let scalar = Variant { isa: Isa::Scalar, run: self.0[self.0.len() - 1].run };
        self.all().find(|variant| variant.isa <= most).unwrap_or(scalar)
    }
}

/// The table of a kernel's variants, best first and the scalar one last: either of a
/// [`Kernel`](super::Kernel), which is written once, or of functions by instruction set.
macro_rules! variants {
    ($kernel:ty, $scalar:expr) => {{
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        use $crate::simd::Simd as _;
        $crate::simd::variants! {
            Avx512: $crate::simd::Avx512::run::<$kernel>,
            Avx2: $crate::simd::Avx2::run::<$kernel>,
            Neon: $crate::simd::Neon::run::<$kernel>,
            Scalar: $scalar,
        }
    }};
    ($($rows:tt)*) => { $crate::simd::rows!([] $($rows)*) };
}
pub(crate) use variants;

/// The rows of a table, those of the architecture alone.
macro_rules! rows {
    ([$($done:tt)*]) => { $crate::simd::Variants(&[$($done)*]) };
    ([$($done:tt)*] Avx512Vbmi: $run:expr, $($rest:tt)*) => {
        $crate::simd::rows!(@ [$($done)*] "x86_64", Avx512Vbmi: $run, $($rest)*)
    };
    ([$($done:tt)*] Avx512: $run:expr, $($rest:tt)*) => {
        $crate::simd::rows!(@ [$($done)*] "x86_64", Avx512: $run, $($rest)*)
    };
    ([$($done:tt)*] AvxVnni: $run:expr, $($rest:tt)*) => {
        $crate::simd::rows!(@ [$($done)*] "x86_64", AvxVnni: $run, $($rest)*)
    };
    ([$($done:tt)*] Avx2: $run:expr, $($rest:tt)*) => {
        $crate::simd::rows!(@ [$($done)*] "x86_64", Avx2: $run, $($rest)*)
    };
    ([$($done:tt)*] NeonDot: $run:expr, $($rest:tt)*) => {
        $crate::simd::rows!(@ [$($done)*] "aarch64", NeonDot: $run, $($rest)*)
    };
    ([$($done:tt)*] Neon: $run:expr, $($rest:tt)*) => {
        $crate::simd::rows!(@ [$($done)*] "aarch64", Neon: $run, $($rest)*)
    };
    ([$($done:tt)*] Scalar: $run:expr, $($rest:tt)*) => {
        $crate::simd::rows!([
            $($done)*
            $crate::simd::TableRow { detect: || Some($crate::simd::Isa::Scalar), run: $run },
        ] $($rest)*)
    };
    (@ [$($done:tt)*] $arch:literal, $isa:ident: $run:expr, $($rest:tt)*) => {
        $crate::simd::rows!([
            $($done)*
            #[cfg(target_arch = $arch)]
            $crate::simd::TableRow {
                detect: || $crate::simd::$isa::detect().map($crate::simd::Isa::$isa),
                run: $run,
            },
        ] $($rest)*)
    };
}
pub(crate) use rows;
