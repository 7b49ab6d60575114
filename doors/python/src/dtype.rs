//! Element types, as numpy's array interface and DLPack call them.

use nnburst::hal::OperandType;
use nnburst::hal::tflite_extension::ExtensionType;
use nnburst_tflite::TensorKind;

/// An element type that an array can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementType {
    /// In the array interface.
    pub(crate) typestr: &'static str,
    pub(crate) bytes: usize,
    /// `DLDataTypeCode` of DLPack.
    pub(crate) dlpack_code: u8,
}

const fn element(typestr: &'static str, bytes: usize, dlpack_code: u8) -> ElementType {
    ElementType { typestr, bytes, dlpack_code }
}

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;

/// The element type of an argument of a model; `None` for scalars, which models don't take here.
pub(crate) fn of_operand(kind: OperandType) -> Option<ElementType> {
    Some(match kind {
        OperandType::TensorFloat32 => element("<f4", 4, FLOAT),
        OperandType::TensorFloat16 => element("<f2", 2, FLOAT),
        OperandType::TensorInt32 => element("<i4", 4, INT),
        OperandType::TensorQuant8Asymm => element("|u1", 1, UINT),
        OperandType::TensorQuant8AsymmSigned
        | OperandType::TensorQuant8Symm
        | OperandType::TensorQuant8SymmPerChannel => element("|i1", 1, INT),
        OperandType::TensorBool8 => element("|b1", 1, BOOL),
        OperandType::TensorQuant16Symm => element("<i2", 2, INT),
        OperandType::TensorQuant16Asymm => element("<u2", 2, UINT),
        kind => match ExtensionType::of_operand(kind)? {
            ExtensionType::TensorInt64 => element("<i8", 8, INT),
            ExtensionType::TensorUint64 => element("<u8", 8, UINT),
            ExtensionType::TensorUint32 => element("<u4", 4, UINT),
            ExtensionType::TensorUint16 => element("<u2", 2, UINT),
            ExtensionType::TensorFloat64 => element("<f8", 8, FLOAT),
            ExtensionType::TensorComplex64 => element("<c8", 8, COMPLEX),
        },
    })
}

/// The element type of a tensor of a file as an array has it. Types without one in numpy (texts,
/// bfloat16, 4-bit integers) are bytes, or untyped.
pub(crate) fn of_file(kind: TensorKind) -> &'static str {
    match kind {
        TensorKind::Float32 => "<f4",
        TensorKind::Float16 => "<f2",
        TensorKind::Float64 => "<f8",
        TensorKind::Int8 | TensorKind::Int4 | TensorKind::Int2 => "|i1",
        TensorKind::Int16 => "<i2",
        TensorKind::Int32 => "<i4",
        TensorKind::Int64 => "<i8",
        TensorKind::Uint8 => "|u1",
        TensorKind::Uint16 | TensorKind::Bfloat16 => "<u2",
        TensorKind::Uint32 => "<u4",
        TensorKind::Uint64 => "<u8",
        TensorKind::Bool => "|b1",
        TensorKind::Complex64 => "<c8",
        TensorKind::Complex128 => "<c16",
        TensorKind::String => "|S1",
        _ => "|V1",
    }
}
