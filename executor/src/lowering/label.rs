//! The labels of steps.

use std::fmt;
use std::sync::Arc;

use nnburst_kernels::simd::Isa;

/// The label of a step, for profiles and debug events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The primitive, such as `gemm_f32`.
    pub kernel: &'static str,
    /// The instruction set of the form that was chosen, such as `Avx512`; `Scalar` for plain code.
    pub form: Isa,
    /// Shapes in words.
    pub shape: Words,
    /// Arithmetic operations of one run, a multiply-add counting as two; 0 where it moves data
    /// only.
    pub operations: u64,
}

impl Label {
    /// Returns whether the arithmetic is that of 8-bit numbers, which kernels have at the end of
    /// their names.
    pub fn is_integer(&self) -> bool {
        self.kernel.ends_with("_i8") || self.kernel.ends_with("_byte")
    }

    /// Nanoseconds that the arithmetic takes about: what vector kernels reach where they are slow,
    /// so that little work is not taken for much.
    pub(crate) fn estimate(&self) -> u64 {
        let per_nanosecond = match (self.form, self.kernel) {
            (Isa::Scalar, _) => 1,
            (_, "pool_real" | "pool_byte") => 6,
            (_, "depthwise_f32" | "depthwise_i8") => 40,
            (_, "attention_f32") => 60,
            _ => 100,
        };
        self.operations / per_nanosecond
    }
}

/// Words that are put together only when somebody reads them: most plans are never asked for their
/// labels, and a tenth of the instructions that compiling one from a cache took went into numbers
/// in decimal.
///
/// ```
/// use nnburst_executor::Words;
/// let (rows, depth) = (49, 320);
/// assert_eq!(Words::new(move |f| write!(f, "[{rows}, {depth}]")).to_string(), "[49, 320]");
/// assert_eq!(Words::default().to_string(), "");
/// ```
#[derive(Clone, Default)]
pub struct Words(Option<Arc<dyn fmt::Display + Send + Sync>>);

impl Words {
    /// Those that `write` writes.
    pub fn new(
        write: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(fmt::from_fn(write))))
    }

    /// All of these, with commas.
    pub(crate) fn list(all: Vec<Self>) -> Self {
        Self::new(move |f| {
            all.iter().enumerate().try_for_each(|(at, words)| {
                let comma = if at > 0 { ", " } else { "" };
                write!(f, "{comma}{words}")
            })
        })
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |words| words.fmt(f))
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_by_what_they_say() {
        let number = |number: usize| Words::new(move |f| write!(f, "{number}"));
        let list = Words::list(vec![number(1), Words::default(), number(23)]);
        assert_eq!(list, Words::new(|f| f.write_str("1, , 23")));
        assert_ne!(list, number(1));
        assert_eq!(format!("{list:?}"), "\"1, , 23\"");
    }
}
