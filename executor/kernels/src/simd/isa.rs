//! Instruction sets: what there is, what the machine has, what the user wants.

/// A type whose values prove that the machine has an instruction set.
macro_rules! proof {
    ($(#[$doc:meta])* $isa:ident, $arch:literal, $detected:ident!($($feature:tt),+)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $isa(());

        impl $isa {
            /// The proof, if the machine has the instruction set.
            pub fn detect() -> Option<Self> {
                #[cfg(target_arch = $arch)]
                let detected = $(std::arch::$detected!($feature))&&+;
                #[cfg(not(target_arch = $arch))]
                let detected = false;
                detected.then_some(Self(()))
            }

            /// # Safety
            /// The machine has the instruction set.
            #[cfg(target_arch = $arch)]
            #[inline(always)]
            pub(crate) const unsafe fn new_unchecked() -> Self {
                Self(())
            }
        }
    };
}

proof! {
    /// aarch64 Advanced SIMD.
    Neon, "aarch64", is_aarch64_feature_detected!("neon")
}
proof! {
    /// aarch64 Advanced SIMD with dot products of bytes.
    NeonDot, "aarch64", is_aarch64_feature_detected!("neon", "dotprod")
}
proof! {
    /// x86-64 AVX2 with FMA and F16C.
    Avx2, "x86_64", is_x86_feature_detected!("avx2", "fma", "f16c")
}
proof! {
    /// [`Avx2`] with AVX-VNNI: dot products of bytes in vectors of 256 bits, without AVX-512.
    AvxVnni, "x86_64", is_x86_feature_detected!("avxvnni", "avx2", "fma", "f16c")
}
proof! {
    /// x86-64 AVX-512 F, BW, DQ, VL and VNNI.
    Avx512, "x86_64",
    is_x86_feature_detected!(
        "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx2", "fma", "f16c"
    )
}
proof! {
    /// [`Avx512`] with VBMI: permutations of bytes.
    Avx512Vbmi, "x86_64",
    is_x86_feature_detected!(
        "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512vbmi", "avx2", "fma",
        "f16c"
    )
}

proof! {
    /// [`Avx512`] with BF16: products of pairs of bf16.
    Avx512Bf16, "x86_64",
    is_x86_feature_detected!(
        "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "avx2", "fma",
        "f16c"
    )
}

/// [`Avx512Vbmi`] with AMX: tiles of bytes, which the system lets this process use.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amx(());

#[cfg(target_arch = "x86_64")]
impl Amx {
    /// The proof, if the machine has tiles and the system gives them: they make the room larger
    /// that a signal takes, so Linux wants to be asked, once for all threads.
    pub(crate) fn detect() -> Option<Self> {
        use nix::libc::{SYS_arch_prctl, syscall};
        /// What `arch_prctl` calls the request, and the state of the processor that holds tiles.
        const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
        const XFEATURE_XTILEDATA: usize = 18;
        /// `AMX-TILE` and `AMX-INT8` in `edx` of leaf 7.
        const TILES_OF_BYTES: u32 = 0b11 << 24;
        static DETECTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        let detected = DETECTED.get_or_init(|| {
            let leaf = Avx512Vbmi::detect().map(|_| std::arch::x86_64::__cpuid_count(7, 0));
            leaf.is_some_and(|leaf| leaf.edx & TILES_OF_BYTES == TILES_OF_BYTES)
                // SAFETY: a request that changes nothing but this process's rights.
                && unsafe { syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) } == 0
        });
        (*detected && super::signal_stack::make_room()).then_some(Self(()))
    }
}

impl AvxVnni {
    /// The part without dot products.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }
}

impl Avx512 {
    /// The part of vectors half as wide.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }
}

impl Avx512Vbmi {
    /// The part without VBMI.
    pub fn avx512(self) -> Avx512 {
        Avx512(())
    }
}

impl Avx512Bf16 {
    /// The part without BF16.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn avx512(self) -> Avx512 {
        Avx512(())
    }
}

impl NeonDot {
    /// The part without dot products.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn neon(self) -> Neon {
        Neon(())
    }
}

/// An instruction set that kernels are written for; later ones are better. A value proves that the
/// machine has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust.
    Scalar,
    /// aarch64 Advanced SIMD.
    Neon(Neon),
    /// aarch64 Advanced SIMD with dot products of bytes.
    NeonDot(NeonDot),
    /// x86-64 AVX2 with FMA and F16C.
    Avx2(Avx2),
    /// The same with AVX-VNNI: dot products of bytes.
    AvxVnni(AvxVnni),
    /// x86-64 AVX-512 F, BW, DQ, VL and VNNI.
    Avx512(Avx512),
    /// The same with VBMI: permutations of bytes.
    Avx512Vbmi(Avx512Vbmi),
}

/// A setting that names an instruction set in vain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// The name is none of those known.
    #[error(
        "NNBURST_ISA is `{0}`; known are scalar, neon, neondot, avx2, avxvnni, avx512, avx512vbmi"
    )]
    Unknown(String),
    /// The machine lacks it.
    #[error("this machine has no {0}")]
    Absent(String),
}

impl Isa {
    /// Those that this machine has, best first.
    pub fn all() -> impl Iterator<Item = Self> {
        KNOWN.iter().filter_map(|known| (known.detect)())
    }

    /// The best that this machine has.
    pub fn best() -> Self {
        Self::all().next().unwrap_or(Self::Scalar)
    }

    /// The instruction set of a name as in settings, such as `avx2`.
    ///
    /// # Errors
    /// The name is unknown or the machine lacks it.
    pub fn named(name: &str) -> Result<Self, IsaError> {
        let known = KNOWN.iter().find(|known| known.name == name);
        let known = known.ok_or_else(|| IsaError::Unknown(name.to_owned()))?;
        (known.detect)().ok_or_else(|| IsaError::Absent(name.to_owned()))
    }

    /// The instruction set of the setting `isa` (`NNBURST_ISA`, or a line of the file of settings),
    /// or the best of the machine where it isn't set.
    ///
    /// # Errors
    /// The name is unknown or the machine lacks it.
    pub fn from_environment() -> Result<Self, IsaError> {
        match nnburst_hal::setting("isa") {
            Some(name) => Self::named(&name.to_string_lossy()),
            None => Ok(Self::best()),
        }
    }
}

/// An instruction set by its name in settings.
struct Known {
    name: &'static str,
    /// A value, if the machine has it.
    detect: fn() -> Option<Isa>,
}

/// All instruction sets, best first.
const KNOWN: [Known; 7] = [
    Known { name: "avx512vbmi", detect: || Avx512Vbmi::detect().map(Isa::Avx512Vbmi) },
    Known { name: "avx512", detect: || Avx512::detect().map(Isa::Avx512) },
    Known { name: "avxvnni", detect: || AvxVnni::detect().map(Isa::AvxVnni) },
    Known { name: "avx2", detect: || Avx2::detect().map(Isa::Avx2) },
    Known { name: "neondot", detect: || NeonDot::detect().map(Isa::NeonDot) },
    Known { name: "neon", detect: || Neon::detect().map(Isa::Neon) },
    Known { name: "scalar", detect: || Some(Isa::Scalar) },
];

impl std::fmt::Debug for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Scalar => "Scalar",
            Self::Neon(_) => "Neon",
            Self::NeonDot(_) => "NeonDot",
            Self::Avx2(_) => "Avx2",
            Self::AvxVnni(_) => "AvxVnni",
            Self::Avx512(_) => "Avx512",
            Self::Avx512Vbmi(_) => "Avx512Vbmi",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_or_refused() {
        assert_eq!(Isa::named("scalar"), Ok(Isa::Scalar));
        assert_eq!(Isa::named("sse"), Err(IsaError::Unknown("sse".to_owned())));
        let absent = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
        assert_eq!(Isa::named(absent), Err(IsaError::Absent(absent.to_owned())));
    }

    #[test]
    fn the_best_comes_first_and_plain_code_last() {
        let all: Vec<Isa> = Isa::all().collect();
        assert_eq!((all.first(), all.last()), (Some(&Isa::best()), Some(&Isa::Scalar)));
        assert!(all.is_sorted_by(|better, worse| better > worse));
    }
}
