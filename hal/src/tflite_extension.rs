//! The vendor extension `dev.nnburst.tflite`: the operators of TFLite with TFLite's arithmetic, for
//! what NNAPI's operations cannot say.
//!
//! An operation's number is the operator's `BuiltinOperator` code in the format's public schema;
//! those of custom operators begin at [`FIRST_CUSTOM`].
//! Its inputs are the operator's tensors in the order of the schema, then its options in the order
//! of [`ExtensionOperation::options`], each a scalar, and last the mask of scalars: an INT32 whose
//! bit `i` says that tensor `i` has no dimension in TFLite. Such a tensor travels with one
//! dimension of 1, as a result without dimensions does.
//!
//! ```
//! use nnburst_hal::tflite_extension::{NAME, operation};
//!
//! assert_eq!(NAME, "dev.nnburst.tflite");
//! let add = operation(0).map(|add| (add.name, add.options[1].name));
//! assert_eq!(add, Some(("ADD", "pot_scale_int16")));
//! ```

mod operations;

pub use operations::OPERATIONS;

use crate::types::{Extension, ExtensionCode, ExtensionOperandType, OperandType};

/// The extension's name.
pub const NAME: &str = "dev.nnburst.tflite";

/// The first number of a custom operator: the schema's codes end long before.
pub const FIRST_CUSTOM: u16 = 1024;

/// The operand types of the extension, all of them tensors without parameters; what NNAPI has a
/// type for keeps NNAPI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ExtensionType {
    /// 64-bit signed integers.
    TensorInt64 = 0,
    /// 32-bit unsigned integers.
    TensorUint32 = 1,
    /// 16-bit unsigned integers.
    TensorUint16 = 2,
    /// 64-bit unsigned integers.
    TensorUint64 = 3,
    /// 64-bit floating point.
    TensorFloat64 = 4,
    /// Pairs of 32-bit floating point: real and imaginary part.
    TensorComplex64 = 5,
}

impl ExtensionType {
    /// Every type, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::TensorInt64,
        Self::TensorUint32,
        Self::TensorUint16,
        Self::TensorUint64,
        Self::TensorFloat64,
        Self::TensorComplex64,
    ];

    /// The type's number within the extension.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Bytes of an element.
    pub const fn element_bytes(self) -> u32 {
        match self {
            Self::TensorUint16 => 2,
            Self::TensorUint32 => 4,
            Self::TensorInt64
            | Self::TensorUint64
            | Self::TensorFloat64
            | Self::TensorComplex64 => 8,
        }
    }

    /// The type of a number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The operand type in a model that gives the extension this prefix.
    pub const fn operand(self, prefix: u16) -> OperandType {
        OperandType::Extension(ExtensionCode { prefix, number: self.number() })
    }

    /// The extension's type that an operand type is, whatever the prefix.
    pub fn of_operand(kind: OperandType) -> Option<Self> {
        match kind {
            OperandType::Extension(code) => Self::from_number(code.number),
            _ => None,
        }
    }
}

/// The type of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionType {
    /// A scalar INT32; enums of the schema are given by their numbers.
    Int,
    /// A scalar FLOAT32.
    Float,
    /// A scalar BOOL.
    Bool,
}

/// An option of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationOption {
    /// Its name in the schema.
    pub name: &'static str,
    /// Its type.
    pub kind: OptionType,
}

/// An operation of the extension.
#[derive(Clone, Copy, Debug)]
pub struct ExtensionOperation {
    /// The number within the extension: the operator's code in the schema, or from
    /// [`FIRST_CUSTOM`] on.
    pub number: u16,
    /// The operator's name in the schema, or one like those for a custom operator.
    pub name: &'static str,
    /// The options, in the order in which they follow the tensors.
    pub options: &'static [OperationOption],
}

/// The operation of a number.
pub fn operation(number: u16) -> Option<&'static ExtensionOperation> {
    let at = OPERATIONS.binary_search_by_key(&number, |operation| operation.number);
    OPERATIONS.get(at.ok()?)
}

/// The extension as a device lists it.
pub fn extension() -> Extension {
    let kind = |kind: ExtensionType| ExtensionOperandType {
        number: kind.number(),
        is_tensor: true,
        byte_size: kind.element_bytes(),
    };
    Extension { name: NAME.to_owned(), operand_types: ExtensionType::ALL.map(kind).to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate_extensions;

    #[test]
    fn the_list_is_valid_and_numbers_name_their_types() {
        assert!(validate_extensions(&[extension()]).is_ok());
        for (at, kind) in (0u16..).zip(ExtensionType::ALL) {
            assert_eq!((kind.number(), ExtensionType::from_number(at)), (at, Some(kind)));
            assert_eq!(ExtensionType::of_operand(kind.operand(7)), Some(kind));
        }
    }

    #[test]
    fn operations_are_sorted_and_found() {
        assert!(OPERATIONS.is_sorted_by(|a, b| a.number < b.number));
        for one in OPERATIONS {
            assert_eq!(operation(one.number).map(|found| found.name), Some(one.name));
        }
        assert!(operation(127).is_none(), "the placeholder of the schema is no operator");
    }
}
