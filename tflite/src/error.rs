//! The reasons why a file does not become a model.

use nnburst_hal::MemoryError;

use crate::flatbuffer::FormatError;

/// An operator that has no place in a HAL model, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// Its place in the file's graph.
    pub index: usize,
    /// Its name in the format, such as `PACK`.
    pub name: String,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for UnsupportedOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "operator {} {}: {}", self.index, self.name, self.why)
    }
}

/// Why a file did not become a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file can't be read.
    #[error("reading the model: {0}")]
    Io(#[from] std::io::Error),
    /// The file is broken, or no .tflite file.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The model's inputs or outputs can't be those of a HAL model.
    #[error("{0}")]
    Interface(String),
    /// Operators without a place in a HAL model; all of them are listed.
    #[error("{} operators can't be mapped; {}", operators.len(), first(operators))]
    Unsupported {
        /// In the order of the file.
        operators: Vec<UnsupportedOperator>,
    },
    /// The memory for the constants can't be had.
    #[error("memory for the model's constants: {0}")]
    Memory(#[from] MemoryError),
}

fn first(operators: &[UnsupportedOperator]) -> String {
    operators.first().map(ToString::to_string).unwrap_or_default()
}
