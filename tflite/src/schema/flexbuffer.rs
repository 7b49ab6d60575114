//! FlexBuffers: the options of custom operators, a map from names to numbers.
//!
//! A buffer ends with its root: the value, its type and its width. A map is a vector of values with
//! a vector of names in front; offsets lead backwards. Everything is checked before it is followed.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

/// A map of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlexMap<'a> {
    bytes: &'a [u8],
    /// The first value.
    start: usize,
    /// Bytes of a value.
    width: usize,
    count: usize,
    names: usize,
    name_width: usize,
}

const INT: u8 = 1;
const UINT: u8 = 2;
const FLOAT: u8 = 3;
const MAP: u8 = 9;
const BOOL: u8 = 26;

impl<'a> FlexMap<'a> {
    /// The map that is a buffer's root; `None` where it has none or is broken.
    pub(crate) fn root(bytes: &'a [u8]) -> Option<Self> {
        let (&width, rest) = bytes.split_last()?;
        let (&kind, rest) = rest.split_last()?;
        let width = usize::from(width);
        let at = rest.len().checked_sub(width)?;
        let offset = unsigned(bytes, at, width)?;
        if kind >> 2 != MAP {
            return None;
        }
        let width = 1usize << (kind & 3);
        let start = at.checked_sub(offset)?;
        let before = |words: usize| start.checked_sub(width.checked_mul(words)?);
        let count = unsigned(bytes, before(1)?, width)?;
        let name_width = unsigned(bytes, before(2)?, width)?;
        let names = before(3)?.checked_sub(unsigned(bytes, before(3)?, width)?)?;
        if !matches!(name_width, 1 | 2 | 4 | 8) || count > bytes.len() {
            return None;
        }
        Some(Self { bytes, start, width, count, names, name_width })
    }

    /// The number of a name; booleans are 0 and 1.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        let at = (0..self.count).find(|&at| self.name(at) == Some(name.as_bytes()))?;
        let place = self.start.checked_add(at.checked_mul(self.width)?)?;
        let kinds = self.start.checked_add(self.count.checked_mul(self.width)?)?;
        let kind = self.bytes.get(kinds.checked_add(at)?)?;
        let value = self.bytes.get(place..place.checked_add(self.width)?)?;
        match kind >> 2 {
            #[expect(clippy::cast_precision_loss, reason = "options are small numbers")]
            INT => Some(signed(value)? as f64),
            #[expect(clippy::cast_precision_loss, reason = "options are small numbers")]
            UINT | BOOL => Some(unsigned(self.bytes, place, self.width)? as f64),
            FLOAT => match value.len() {
                4 => Some(f64::from(f32::from_le_bytes(value.try_into().ok()?))),
                8 => Some(f64::from_le_bytes(value.try_into().ok()?)),
                _ => None,
            },
            _ => None,
        }
    }

    fn name(&self, at: usize) -> Option<&'a [u8]> {
        let place = self.names.checked_add(at.checked_mul(self.name_width)?)?;
        let start = place.checked_sub(unsigned(self.bytes, place, self.name_width)?)?;
        self.bytes.get(start..)?.split(|&byte| byte == 0).next()
    }
}

fn unsigned(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let value = bytes.get(at..at.checked_add(width)?)?;
    let mut wide = [0; 8];
    wide.get_mut(..value.len())?.copy_from_slice(value);
    usize::try_from(u64::from_le_bytes(wide)).ok()
}

fn signed(value: &[u8]) -> Option<i64> {
    let is_negative = value.last()? & 0x80 != 0;
    let mut wide = [if is_negative { 0xff } else { 0 }; 8];
    wide.get_mut(..value.len())?.copy_from_slice(value);
    Some(i64::from_le_bytes(wide))
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "what a test has made"
)]
mod tests {
    use super::*;

    /// `{"a": -2, "b": 0.5, "c": true}` with values of four bytes.
    fn map() -> Vec<u8> {
        let mut bytes = b"a\0b\0c\0".to_vec();
        bytes.push(3); // names
        let names = u8::try_from(bytes.len()).unwrap();
        bytes.extend([names, names - 1, names - 2]);
        bytes.resize(12, 0);
        let keys = bytes.len();
        bytes.extend(u32::try_from(keys - usize::from(names)).unwrap().to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(3u32.to_le_bytes());
        let start = bytes.len();
        bytes.extend((-2i32).to_le_bytes());
        bytes.extend(0.5f32.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend([INT << 2 | 2, FLOAT << 2 | 2, BOOL << 2]);
        bytes.push(u8::try_from(bytes.len() - start).unwrap());
        bytes.extend([MAP << 2 | 2, 1]);
        bytes
    }

    #[test]
    fn numbers_go_by_their_names() {
        let bytes = map();
        let map = FlexMap::root(&bytes).unwrap();
        let found = ["a", "b", "c", "d"].map(|name| map.number(name));
        assert_eq!(found, [Some(-2.0), Some(0.5), Some(1.0), None]);
    }

    #[test]
    fn broken_buffers_end() {
        let bytes = map();
        for cut in 0..bytes.len() {
            if let Some(map) = FlexMap::root(&bytes[cut..]) {
                map.number("a");
            }
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = bytes.clone();
                broken[at] = value;
                if let Some(map) = FlexMap::root(&broken) {
                    map.number("c");
                }
            }
        }
    }
}
