//! Tensors: element types, shapes and quantisation.

use std::ops::Range;

use super::Sparsity;
use crate::flatbuffer::{Field, FormatError, Problem, Table};

macro_rules! kinds {
    ($($variant:ident = $code:literal, $name:literal, $doc:literal;)*) => {
        /// The element type of a tensor in the file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum TensorKind {
            $(#[doc = $doc] $variant,)*
            /// A type newer than this list.
            Unknown(i8),
        }

        #[cfg(any(test, feature = "testing"))]
        impl TensorKind {
            pub(crate) fn code(self) -> i8 {
                match self { $(Self::$variant => $code,)* Self::Unknown(code) => code }
            }
        }

        impl TensorKind {
            pub(crate) fn from_code(code: i8) -> Self {
                match code { $($code => Self::$variant,)* other => Self::Unknown(other) }
            }

            /// The name in the schema.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Unknown(_) => "UNKNOWN" }
            }
        }
    };
}

kinds! {
    Float32 = 0, "FLOAT32", "32-bit floating point.";
    Float16 = 1, "FLOAT16", "16-bit floating point.";
    Int32 = 2, "INT32", "32-bit signed.";
    Uint8 = 3, "UINT8", "8-bit unsigned, quantised.";
    Int64 = 4, "INT64", "64-bit signed.";
    String = 5, "STRING", "Texts.";
    Bool = 6, "BOOL", "One byte, 0 or 1.";
    Int16 = 7, "INT16", "16-bit signed, quantised.";
    Complex64 = 8, "COMPLEX64", "Pairs of 32-bit floating point.";
    Int8 = 9, "INT8", "8-bit signed, quantised.";
    Float64 = 10, "FLOAT64", "64-bit floating point.";
    Complex128 = 11, "COMPLEX128", "Pairs of 64-bit floating point.";
    Uint64 = 12, "UINT64", "64-bit unsigned.";
    Resource = 13, "RESOURCE", "A handle.";
    Variant = 14, "VARIANT", "Anything.";
    Uint32 = 15, "UINT32", "32-bit unsigned.";
    Uint16 = 16, "UINT16", "16-bit unsigned.";
    Int4 = 17, "INT4", "Two 4-bit signed in each byte.";
    Bfloat16 = 18, "BFLOAT16", "The upper half of a 32-bit floating point.";
    Int2 = 19, "INT2", "Four 2-bit signed in each byte.";
}

/// The mapping from integers to real numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Quantization {
    /// One, or one per channel.
    pub(crate) scales: Vec<f32>,
    pub(crate) zero_points: Vec<i64>,
    /// The dimension that counts channels, as the file has it: it may be out of range.
    pub(crate) dimension: i32,
    /// Scales of blocks of elements, instead of `scales`.
    pub(crate) blockwise: Option<Blockwise>,
    /// True if the scales are not what counts, but a scheme of somebody's own.
    pub(crate) custom: bool,
}

/// Scales of blocks of consecutive elements along the last dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blockwise {
    /// The tensor with the scales, as the file has it: it may be out of range.
    pub(crate) scales: i32,
    /// The tensor with the zero points, likewise; -1 where all are 0.
    pub(crate) zero_points: i32,
    /// Elements of a block.
    pub(crate) block: i32,
}

/// A tensor of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Where the name lies in the file; empty where it has none.
    pub(crate) name_range: Range<usize>,
    /// Extents; 0 where one is unknown.
    pub(crate) shape: Vec<u32>,
    /// Extents of which those that may change are 0; empty where the file says nothing of it.
    pub(crate) signature: Vec<u32>,
    /// True if an empty shape means a scalar; else it may also mean that nobody knows.
    pub(crate) has_rank: bool,
    pub(crate) kind: TensorKind,
    /// An index into the file's buffers, in range; buffer 0 is empty.
    pub(crate) buffer: usize,
    /// Without scales if the tensor isn't quantised.
    pub(crate) quantization: Quantization,
    /// True if the value is kept from one invocation to the next.
    pub(crate) is_variable: bool,
    /// True if the shape is not the file's but what the caller of the import promises.
    pub(crate) is_shape_given: bool,
    /// True if the file's shape does not hold, so that nobody knows the rank.
    pub(crate) is_shape_open: bool,
    /// The layout where most values are 0 and left out.
    pub(crate) sparsity: Option<Sparsity>,
}

impl Tensor {
    pub(super) fn read(table: &Table<'_>, buffers: usize) -> Result<Self, FormatError> {
        const SHAPE: Field = Field::new(0, "Tensor.shape");
        const TYPE: Field = Field::new(1, "Tensor.type");
        const BUFFER: Field = Field::new(2, "Tensor.buffer");
        const NAME: Field = Field::new(3, "Tensor.name");
        const QUANTIZATION: Field = Field::new(4, "Tensor.quantization");
        const IS_VARIABLE: Field = Field::new(5, "Tensor.is_variable");
        const SPARSITY: Field = Field::new(6, "Tensor.sparsity");
        const SIGNATURE: Field = Field::new(7, "Tensor.shape_signature");
        const HAS_RANK: Field = Field::new(8, "Tensor.has_rank");

        Ok(Self {
            shape: extents(table, SHAPE)?,
            signature: extents(table, SIGNATURE)?,
            kind: TensorKind::from_code(table.scalar(TYPE, 0i8)?),
            buffer: super::within(BUFFER, i64::from(table.scalar(BUFFER, 0u32)?), buffers)?,
            name: table.string(NAME)?.unwrap_or_default(),
            name_range: table.byte_range(NAME)?.unwrap_or_default(),
            quantization: match table.table(QUANTIZATION)? {
                Some(table) => Quantization::read(&table)?,
                None => Quantization::default(),
            },
            is_variable: table.scalar(IS_VARIABLE, false)?,
            sparsity: match table.table(SPARSITY)? {
                Some(table) => Some(Sparsity::read(&table)?),
                None => None,
            },
            has_rank: table.scalar(HAS_RANK, false)?,
            is_shape_given: false,
            is_shape_open: false,
        })
    }
}

impl Tensor {
    /// Replaces the shape by one that the caller promises.
    pub(crate) fn give_shape(&mut self, shape: &[u32]) {
        shape.clone_into(&mut self.shape);
        self.signature.clear();
        self.has_rank = true;
        self.is_shape_given = true;
    }

    /// Forgets the shape, which holds for other shapes of the graph's inputs.
    pub(crate) fn forget_shape(&mut self) {
        self.shape.clear();
        self.signature.clear();
        self.has_rank = false;
        self.is_shape_open = true;
    }

    /// Returns whether the tensor has no dimension.
    pub(crate) fn is_scalar(&self) -> bool {
        self.shape.is_empty() && !self.is_shape_open
    }
}

/// Extents, where -1 stands for one that is unknown.
fn extents(table: &Table<'_>, field: Field) -> Result<Vec<u32>, FormatError> {
    let extents = table.scalars::<i32>(field)?.into_iter().map(|extent| match extent {
        -1 => Ok(0),
        extent => u32::try_from(extent).map_err(|_| {
            let (value, max) = (i64::from(extent), i64::from(i32::MAX));
            field.fails(Problem::OutOfRange { value, min: -1, max })
        }),
    });
    extents.collect()
}

impl Quantization {
    fn read(table: &Table<'_>) -> Result<Self, FormatError> {
        const SCALE: Field = Field::new(2, "QuantizationParameters.scale");
        const ZERO_POINT: Field = Field::new(3, "QuantizationParameters.zero_point");
        const DETAILS: Field = Field::new(4, "QuantizationParameters.details_type");
        const VALUES: Field = Field::new(5, "QuantizationParameters.details");
        const DIMENSION: Field = Field::new(6, "QuantizationParameters.quantized_dimension");
        let details = table.scalar(DETAILS, 0u8)?;
        let blockwise = match details {
            BLOCKWISE => table.table(VALUES)?,
            _ => None,
        };
        Ok(Self {
            scales: table.scalars(SCALE)?,
            zero_points: table.scalars(ZERO_POINT)?,
            dimension: table.scalar(DIMENSION, 0i32)?,
            blockwise: blockwise.map(|table| Blockwise::read(&table)).transpose()?,
            custom: details != 0 && details != BLOCKWISE,
        })
    }
}

/// The member of the union `QuantizationDetails` for scales of blocks.
const BLOCKWISE: u8 = 2;

impl Blockwise {
    fn read(table: &Table<'_>) -> Result<Self, FormatError> {
        const SCALES: Field = Field::new(0, "BlockwiseQuantization.scales");
        const ZERO_POINTS: Field = Field::new(1, "BlockwiseQuantization.zero_points");
        const BLOCK: Field = Field::new(2, "BlockwiseQuantization.block_size");
        Ok(Self {
            scales: table.scalar(SCALES, 0i32)?,
            zero_points: table.scalar(ZERO_POINTS, 0i32)?,
            block: table.scalar(BLOCK, 0i32)?,
        })
    }
}
