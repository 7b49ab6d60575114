//! The errors of a FlatBuffer.

/// A field of the file that can't be what it claims.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FormatError {
    /// The field, by its name in the schema.
    pub field: &'static str,
    /// The error.
    pub problem: Problem,
}

/// The error of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file ends before the field does.
    #[error("the file ends before byte {at}, expected a value there")]
    OutOfFile {
        /// First byte of what is missing.
        at: usize,
    },
    /// The field reaches past its table.
    #[error("it is at byte {slot} of a table of {size} bytes")]
    OutOfTable {
        /// The slot in the table.
        slot: usize,
        /// Bytes of the table.
        size: usize,
    },
    /// A table's description is cut off or contradicts itself.
    #[error("the vtable at byte {at} is invalid")]
    BadVtable {
        /// First byte of the vtable.
        at: usize,
    },
    /// An offset leads out of the file or nowhere.
    #[error("the offset {offset} at byte {at} is outside the file")]
    BadOffset {
        /// The place of the offset.
        at: usize,
        /// The offset.
        offset: u32,
    },
    /// A vector claims more elements than the file has bytes for.
    #[error("the vector of {count} elements at byte {at} does not fit into the file")]
    TooLong {
        /// Elements claimed.
        count: usize,
        /// First byte of the vector.
        at: usize,
    },
    /// The file refers to the same bytes so often that reading it would take memory out of
    /// proportion.
    #[error("its {count} elements are too many for the size of the file")]
    Amplified {
        /// Elements of the vector at which patience ended.
        count: usize,
    },
    /// The bytes are not what they have to be.
    #[error("it is not valid in a .tflite file")]
    Mismatch,
    /// A required field is left out.
    #[error("it is missing")]
    Missing,
    /// A number is outside its range.
    #[error("{value} is not within {min}..={max}")]
    OutOfRange {
        /// The number.
        value: i64,
        /// Least value allowed.
        min: i64,
        /// Greatest value allowed.
        max: i64,
    },
}
