//! Operands: type, shape, quantisation and where the value lives.

use serde::{Deserialize, Serialize};

use super::codes::{OperandLifeTime, OperandType};

impl OperandType {
    /// Returns whether values of the type have no dimensions. Types of extensions count as tensors
    /// here; the extension's description says what they are.
    pub const fn is_scalar(self) -> bool {
        matches!(
            self,
            Self::Float32
                | Self::Int32
                | Self::Uint32
                | Self::Bool
                | Self::Float16
                | Self::Subgraph
                | Self::Oem
        )
    }

    /// Returns whether the type is of an extension.
    pub const fn is_extension(self) -> bool {
        matches!(self, Self::Extension(_))
    }

    /// Bytes of one element; 0 for SUBGRAPH and OEM, `None` for types of extensions.
    pub const fn element_bytes(self) -> Option<usize> {
        Some(match self {
            Self::Float32
            | Self::Int32
            | Self::Uint32
            | Self::TensorFloat32
            | Self::TensorInt32 => 4,
            Self::TensorQuant16Symm
            | Self::TensorFloat16
            | Self::Float16
            | Self::TensorQuant16Asymm => 2,
            Self::TensorQuant8Asymm
            | Self::Bool
            | Self::TensorBool8
            | Self::TensorQuant8SymmPerChannel
            | Self::TensorQuant8Symm
            | Self::TensorQuant8AsymmSigned
            | Self::TensorOemByte => 1,
            Self::Subgraph | Self::Oem => 0,
            Self::Extension(_) => return None,
        })
    }
}

/// The alignment of a value of so many bytes in a pool that a client fills: none for one byte, 2
/// for two or three, 4 beyond.
pub const fn pool_alignment(length: usize) -> usize {
    match length {
        0 | 1 => 1,
        2 | 3 => 2,
        _ => 4,
    }
}

/// A byte range: of the model's values or pools, or of a request's pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DataLocation {
    /// Index of the pool; 0 where pools play no part.
    pub pool_index: u32,
    /// First byte; with [`OperandLifeTime::Subgraph`] the index into `Model::referenced`.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// Quantisation per channel, of [`OperandType::TensorQuant8SymmPerChannel`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelQuant {
    /// One positive scale per channel.
    pub scales: Vec<f32>,
    /// The dimension that counts channels.
    pub channel_dim: u32,
}

/// The parameters of a type beyond scale and zero point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum ExtraParams {
    /// Nothing.
    #[default]
    None,
    /// Scales per channel.
    ChannelQuant(ChannelQuant),
    /// Bytes that the extension understands.
    Extension(Vec<u8>),
}

/// One value of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operand {
    /// Scalar or tensor, and of what elements.
    pub kind: OperandType,
    /// Extents, outermost first; 0 is an unknown extent, empty a scalar or a tensor of unknown
    /// rank.
    pub dimensions: Vec<u32>,
    /// The number of operation inputs of the graph that read the operand.
    pub number_of_consumers: u32,
    /// Quantisation scale; 0 for types without one.
    pub scale: f32,
    /// The stored value that stands for 0.
    pub zero_point: i32,
    /// The place of the value.
    pub lifetime: OperandLifeTime,
    /// The bytes of a constant; its meaning depends on `lifetime`.
    pub location: DataLocation,
    /// Per-channel scales, or what an extension adds.
    pub extra_params: ExtraParams,
}

impl Operand {
    /// A temporary tensor without quantisation, read by nobody yet.
    pub fn tensor(kind: OperandType, dimensions: Vec<u32>) -> Self {
        Self {
            kind,
            dimensions,
            number_of_consumers: 0,
            scale: 0.0,
            zero_point: 0,
            lifetime: OperandLifeTime::TemporaryVariable,
            location: DataLocation::default(),
            extra_params: ExtraParams::None,
        }
    }

    /// A tensor of FLOAT32.
    pub fn float32(dimensions: impl Into<Vec<u32>>) -> Self {
        Self::tensor(OperandType::TensorFloat32, dimensions.into())
    }

    /// A tensor of FLOAT16.
    pub fn float16(dimensions: impl Into<Vec<u32>>) -> Self {
        Self::tensor(OperandType::TensorFloat16, dimensions.into())
    }

    /// A tensor of INT32.
    pub fn int32(dimensions: impl Into<Vec<u32>>) -> Self {
        Self::tensor(OperandType::TensorInt32, dimensions.into())
    }

    /// A tensor of BOOL8.
    pub fn bool8(dimensions: impl Into<Vec<u32>>) -> Self {
        Self::tensor(OperandType::TensorBool8, dimensions.into())
    }

    /// A tensor of QUANT8_ASYMM: unsigned bytes that stand for `scale * (byte - zero_point)`.
    pub fn quant8(dimensions: impl Into<Vec<u32>>, scale: f32, zero_point: i32) -> Self {
        Self::tensor(OperandType::TensorQuant8Asymm, dimensions.into())
            .with_quantization(scale, zero_point)
    }

    /// A tensor of QUANT8_ASYMM_SIGNED: signed bytes that stand for `scale * (byte - zero_point)`.
    pub fn quant8_signed(dimensions: impl Into<Vec<u32>>, scale: f32, zero_point: i32) -> Self {
        Self::tensor(OperandType::TensorQuant8AsymmSigned, dimensions.into())
            .with_quantization(scale, zero_point)
    }

    /// A temporary scalar, read by nobody yet.
    pub fn scalar(kind: OperandType) -> Self {
        Self::tensor(kind, Vec::new())
    }

    /// The same operand, quantised.
    #[must_use]
    pub fn with_quantization(mut self, scale: f32, zero_point: i32) -> Self {
        (self.scale, self.zero_point) = (scale, zero_point);
        self
    }

    /// The same operand, elsewhere.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: OperandLifeTime) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Elements of the tensor, 1 for a scalar; `None` where rank or an extent is unknown, or the
    /// product is beyond `usize`.
    pub fn element_count(&self) -> Option<usize> {
        if self.kind.is_scalar() {
            return Some(1);
        }
        if self.dimensions.is_empty() {
            return None;
        }
        self.dimensions.iter().try_fold(1usize, |product, &extent| match extent {
            0 => None,
            extent => product.checked_mul(usize::try_from(extent).ok()?),
        })
    }

    /// Bytes of the value; `None` where the shape is not fully known, the type is an extension's,
    /// or the size is beyond 2^32 - 1.
    pub fn data_size(&self) -> Option<usize> {
        let bytes = self.element_count()?.checked_mul(self.kind.element_bytes()?)?;
        u32::try_from(bytes).is_ok().then_some(bytes)
    }

    /// Returns whether rank or an extent is unknown. Of extension types nobody but their driver
    /// knows, so those without dimensions count as known.
    pub fn has_unspecified_dimensions(&self) -> bool {
        let is_tensor = !self.kind.is_scalar() && !self.kind.is_extension();
        self.dimensions.contains(&0) || (is_tensor && self.dimensions.is_empty())
    }

    /// Returns whether the value is part of the model.
    pub fn is_constant(&self) -> bool {
        matches!(self.lifetime, OperandLifeTime::ConstantCopy | OperandLifeTime::ConstantReference)
    }

    /// The per-channel scales, where the operand has them.
    pub fn channel_quant(&self) -> Option<&ChannelQuant> {
        match &self.extra_params {
            ExtraParams::ChannelQuant(quant) => Some(quant),
            ExtraParams::None | ExtraParams::Extension(_) => None,
        }
    }
}

/// Returns whether a shape says all that another one says: its rank and every extent of it that
/// isn't 0. One without extents says nothing, so that its rank is open.
#[inline]
pub fn extends_shape(known: &[u32], told: &[u32]) -> bool {
    known.is_empty()
        || known.len() == told.len()
            && known.iter().zip(told).all(|(&known, &told)| known == 0 || known == told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_may_say_more_and_nothing_else() {
        for (known, told, want) in [
            (&[][..], &[2, 3][..], true),
            (&[0, 3], &[2, 3], true),
            (&[2, 3], &[2, 3], true),
            (&[2, 3], &[2, 0], false),
            (&[2, 3], &[2, 4], false),
            (&[2, 3], &[2, 3, 1], false),
            (&[2], &[], false),
        ] {
            assert_eq!(extends_shape(known, told), want, "{known:?} {told:?}");
        }
    }

    #[test]
    fn data_size_knows_what_is_unknown() {
        struct Case {
            what: &'static str,
            kind: OperandType,
            dimensions: &'static [u32],
            want: Option<usize>,
        }
        let cases = [
            Case {
                what: "tensor",
                kind: OperandType::TensorFloat16,
                dimensions: &[2, 3],
                want: Some(12),
            },
            Case { what: "scalar", kind: OperandType::Int32, dimensions: &[], want: Some(4) },
            Case {
                what: "unknown rank",
                kind: OperandType::TensorInt32,
                dimensions: &[],
                want: None,
            },
            Case {
                what: "unknown extent",
                kind: OperandType::TensorInt32,
                dimensions: &[2, 0],
                want: None,
            },
            Case {
                what: "past 32 bits",
                kind: OperandType::TensorInt32,
                dimensions: &[1 << 16, 1 << 14],
                want: None,
            },
            Case {
                what: "past usize",
                kind: OperandType::TensorInt32,
                dimensions: &[u32::MAX, u32::MAX, 9],
                want: None,
            },
        ];
        for Case { what, kind, dimensions, want } in cases {
            assert_eq!(Operand::tensor(kind, dimensions.to_vec()).data_size(), want, "{what}");
        }
    }

    #[test]
    fn what_is_unspecified_is_known() {
        let tensor = |dimensions: &[u32]| {
            Operand::tensor(OperandType::TensorInt32, dimensions.to_vec())
                .has_unspecified_dimensions()
        };
        assert!(tensor(&[]) && tensor(&[2, 0]) && !tensor(&[2, 3]));
        assert!(!Operand::scalar(OperandType::Bool).has_unspecified_dimensions());
        let code = crate::ExtensionCode { prefix: 1, number: 0 };
        assert!(!Operand::scalar(OperandType::Extension(code)).has_unspecified_dimensions());
        assert!(OperandType::Extension(code).is_extension() && !OperandType::Oem.is_extension());
        assert_eq!([0, 1, 2, 3, 4, 5].map(pool_alignment), [1, 1, 2, 2, 4, 4]);
    }
}
