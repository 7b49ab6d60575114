//! The decoder of messages: bincode 2 "standard", with a limit that is known at run time only.
//!
//! The limit of bincode's own decoder is part of its type, so that every message was compiled once
//! for each limit.

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, SeqAccess, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

/// The errors of a message's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    /// The values that the message holds are larger than the limit.
    #[error("larger than the limit")]
    LimitExceeded,
    /// The message ends where a value should be.
    #[error("{missing} bytes are missing at its end")]
    Truncated {
        /// The bytes that are missing.
        missing: usize,
    },
    /// A byte or number is no value of its type.
    #[error("{found} is no {what}")]
    Invalid {
        /// The type.
        what: &'static str,
        /// The byte or number.
        found: u64,
    },
    /// A string is not UTF-8.
    #[error("{0}")]
    Utf8(#[from] std::str::Utf8Error),
    /// No message contains values of this kind.
    #[error("messages contain no values of this kind")]
    Unsupported,
    /// A value is not one of its type, in its own words.
    #[error("{0}")]
    Custom(String),
}

impl Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Custom(message.to_string())
    }
}

type Result<T> = std::result::Result<T, DecodeError>;

/// Takes values off the front of a message.
#[derive(Debug)]
pub(super) struct Decoder<'de> {
    /// What is left of the message.
    pub(super) rest: &'de [u8],
    /// The bytes that values may still take, a number those of its type.
    left: usize,
}

impl<'de> Decoder<'de> {
    pub(super) fn new(bytes: &'de [u8], limit: usize) -> Self {
        Self { rest: bytes, left: limit }
    }

    /// Counts `bytes` against the limit, before anything is made of them.
    fn claim(&mut self, bytes: usize) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or(DecodeError::LimitExceeded)?;
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<&'de [u8]> {
        let missing = count.saturating_sub(self.rest.len());
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or(DecodeError::Truncated { missing })?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number of `bytes` bytes as it lies in memory, little-endian.
    fn fixed(&mut self, bytes: usize) -> Result<u64> {
        let taken = self.take(bytes)?;
        Ok(taken.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn byte(&mut self) -> Result<u8> {
        self.claim(1)?;
        // One byte fits.
        Ok(u8::try_from(self.fixed(1)?).unwrap_or(u8::MAX))
    }

    /// A number of a type of `size` bytes: a small one in its first byte, or behind a byte that
    /// says how many there are.
    fn number(&mut self, size: usize) -> Result<u64> {
        self.claim(size)?;
        let first = self.fixed(1)?;
        let bytes = match first {
            0..=250 => return Ok(first),
            251 => 2,
            252 => 4,
            253 => 8,
            _ => usize::MAX,
        };
        if bytes > size {
            return Err(DecodeError::Invalid { what: "first byte of the number", found: first });
        }
        self.fixed(bytes)
    }

    /// As [`Self::number`], with the sign in the lowest bit.
    fn signed(&mut self, size: usize) -> Result<i64> {
        let number = self.number(size)?;
        Ok((number >> 1).cast_signed() ^ (number & 1).cast_signed().wrapping_neg())
    }

    fn length(&mut self) -> Result<usize> {
        let found = self.number(8)?;
        usize::try_from(found).map_err(|_| DecodeError::Invalid { what: "length", found })
    }

    fn bytes(&mut self) -> Result<&'de [u8]> {
        let length = self.length()?;
        self.claim(length)?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'de str> {
        Ok(std::str::from_utf8(self.bytes()?)?)
    }

    fn flag(&mut self, what: &'static str) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeError::Invalid { what, found: u64::from(found) }),
        }
    }
}

/// The methods of numbers: what a type's decoder gives always fits the type.
macro_rules! numbers {
    ($($method:ident, $visit:ident: $decode:ident($size:expr) as $kind:ty,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            let number = self.$decode($size)?;
            visitor.$visit(<$kind>::try_from(number).unwrap_or(<$kind>::MAX))
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Decoder<'de> {
    type Error = DecodeError;

    numbers! {
        deserialize_u16, visit_u16: number(2) as u16,
        deserialize_u32, visit_u32: number(4) as u32,
        deserialize_u64, visit_u64: number(8) as u64,
        deserialize_i16, visit_i16: signed(2) as i16,
        deserialize_i32, visit_i32: signed(4) as i32,
        deserialize_i64, visit_i64: signed(8) as i64,
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        Err(DecodeError::Unsupported)
    }

    forward_to_deserialize_any! { i128 u128 char map identifier ignored_any }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_bool(self.flag("bool")?)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_u8(self.byte()?)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_i8(self.byte()?.cast_signed())
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.claim(4)?;
        // Four bytes fit.
        visitor.visit_f32(f32::from_bits(u32::try_from(self.fixed(4)?).unwrap_or(u32::MAX)))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.claim(8)?;
        visitor.visit_f64(f64::from_bits(self.fixed(8)?))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_bytes(self.bytes()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.flag("option")? { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let left = self.length()?;
        visitor.visit_seq(Elements { decoder: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value> {
        visitor.visit_seq(Elements { decoder: self, left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        left: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_tuple(left, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The elements of a sequence, or the fields of a struct.
struct Elements<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> EnumAccess<'de> for &mut Decoder<'de> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        // A number of four bytes fits.
        let code = u32::try_from(self.number(4)?).unwrap_or(u32::MAX);
        let code: U32Deserializer<DecodeError> = code.into_deserializer();
        Ok((seed.deserialize(code)?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Decoder<'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_tuple(left, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_tuple(fields.len(), visitor)
    }
}
