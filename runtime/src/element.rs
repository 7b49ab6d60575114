//! The Rust types that hold the elements of operands.

use nnburst_hal::OperandType;

/// A Rust type that elements of tensors are read and written as.
pub trait Element: bytemuck::Pod + private::Sealed {
    /// The operand types it holds.
    const KINDS: &'static [OperandType];
}

mod private {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($kind:ty: $($operand:ident),*;)*) => {
        $(
            impl private::Sealed for $kind {}
            impl Element for $kind {
                const KINDS: &'static [OperandType] = &[$(OperandType::$operand),*];
            }
        )*
    };
}

elements! {
    f32: TensorFloat32, Float32;
    i32: TensorInt32, Int32;
    u32: Uint32;
    half::f16: TensorFloat16, Float16;
    u16: TensorQuant16Asymm, TensorFloat16, Float16;
    i16: TensorQuant16Symm;
    u8: TensorQuant8Asymm, TensorBool8, Bool, TensorOemByte;
    i8: TensorQuant8AsymmSigned, TensorQuant8Symm, TensorQuant8SymmPerChannel;
}
