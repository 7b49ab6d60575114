//! Instruction sets: what there is, what the machine has, what the user wants.

use once_cell::race::OnceBox;

/// An instruction set that kernels are written for; later ones are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust.
    Scalar,
    /// aarch64 Advanced SIMD.
    Neon,
    /// aarch64 Advanced SIMD with dot products of bytes.
    NeonDot,
    /// x86-64 AVX2 with FMA.
    Avx2,
    /// x86-64 AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
    /// The same with VBMI: permutations of bytes.
    Avx512Vbmi,
}

/// A setting that names an instruction set in vain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// The name is none of those known.
    #[error("NNBURST_ISA is `{0}`; known are scalar, neon, neondot, avx2, avx512, avx512vbmi")]
    Unknown(String),
    /// The machine lacks it.
    #[error("this machine has no {0:?}")]
    Absent(Isa),
}

impl Isa {
    /// All, best first.
    pub const ALL: [Self; 6] =
        [Self::Avx512Vbmi, Self::Avx512, Self::Avx2, Self::NeonDot, Self::Neon, Self::Scalar];

    /// Returns whether this machine has it.
    pub fn detected(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
                    && Self::Avx2.detected()
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vbmi => is_x86_feature_detected!("avx512vbmi") && Self::Avx512.detected(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => {
                std::arch::is_aarch64_feature_detected!("dotprod") && Self::Neon.detected()
            }
            _ => false,
        }
    }

    /// The best that this machine has.
    pub fn best() -> Self {
        static BEST: OnceBox<Isa> = OnceBox::new();
        let best = || Self::ALL.into_iter().find(|isa| isa.detected()).unwrap_or(Self::Scalar);
        *BEST.get_or_init(|| Box::new(best()))
    }

    /// This one, if the machine has it.
    ///
    /// # Errors
    /// It doesn't.
    pub fn checked(self) -> Result<Self, IsaError> {
        if self.detected() { Ok(self) } else { Err(IsaError::Absent(self)) }
    }

    /// What the setting `isa` names (`NNBURST_ISA`, or a line of the file of settings), or the best
    /// of the machine where it isn't set.
    ///
    /// # Errors
    /// The name is unknown or the machine lacks it.
    pub fn from_environment() -> Result<Self, IsaError> {
        match nnburst_hal::setting("isa") {
            Some(name) => Self::from_name(&name.to_string_lossy())?.checked(),
            None => Ok(Self::best()),
        }
    }

    fn from_name(name: &str) -> Result<Self, IsaError> {
        Ok(match name {
            "scalar" => Self::Scalar,
            "neon" => Self::Neon,
            "neondot" => Self::NeonDot,
            "avx2" => Self::Avx2,
            "avx512" => Self::Avx512,
            "avx512vbmi" => Self::Avx512Vbmi,
            other => return Err(IsaError::Unknown(other.to_owned())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_or_refused() {
        assert_eq!(Isa::from_name("avx2"), Ok(Isa::Avx2));
        assert_eq!(Isa::from_name("sse"), Err(IsaError::Unknown("sse".to_owned())));
        assert!(Isa::best().detected() && Isa::Scalar.detected());
        let absent = if cfg!(target_arch = "aarch64") { Isa::Avx2 } else { Isa::Neon };
        assert_eq!(absent.checked(), Err(IsaError::Absent(absent)));
    }
}
