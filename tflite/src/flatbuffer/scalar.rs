//! Little-endian scalars, read from anywhere.

/// A number as FlatBuffers store it: little-endian, and no alignment is relied on.
pub(crate) trait Scalar: Sized {
    /// Its size.
    const BYTES: usize;
    /// The number at `at`, if the bytes reach that far.
    fn read(bytes: &[u8], at: usize) -> Option<Self>;
}

macro_rules! scalars {
    ($($kind:ty),*) => {$(
        impl Scalar for $kind {
            const BYTES: usize = size_of::<Self>();
            fn read(bytes: &[u8], at: usize) -> Option<Self> {
                bytes.get(at..)?.first_chunk().copied().map(Self::from_le_bytes)
            }
        }
    )*};
}

scalars!(u8, i8, u16, i16, u32, i32, u64, i64, f32);

impl Scalar for bool {
    const BYTES: usize = 1;
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        u8::read(bytes, at).map(|byte| byte != 0)
    }
}
