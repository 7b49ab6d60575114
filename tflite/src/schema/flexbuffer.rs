//! FlexBuffers: the options of custom operators, a map from names to numbers, lists of numbers and
//! texts.
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
const KEY: u8 = 4;
const STRING: u8 = 5;
const INDIRECT_INT: u8 = 6;
const INDIRECT_FLOAT: u8 = 8;
const MAP: u8 = 9;
const VECTOR: u8 = 10;
const VECTOR_INT: u8 = 11;
const VECTOR_FLOAT: u8 = 13;
const VECTOR_INT2: u8 = 16;
const VECTOR_FLOAT4: u8 = 24;
const BOOL: u8 = 26;
const VECTOR_BOOL: u8 = 36;

/// The most numbers of a list.
const MOST_NUMBERS: usize = 1 << 10;

/// A value within a buffer.
#[derive(Clone, Copy, Debug)]
struct FlexValue<'a> {
    bytes: &'a [u8],
    place: usize,
    /// Bytes of the value, or of the offset that leads to it.
    width: usize,
    kind: u8,
    /// Bytes of what an offset leads to, each.
    own_width: usize,
}

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
        self.value(name)?.number()
    }

    /// The numbers of a name.
    pub(crate) fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        self.value(name)?.numbers()
    }

    /// The text of a name.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.value(name)?.text()
    }

    fn value(&self, name: &str) -> Option<FlexValue<'a>> {
        let at = (0..self.count).find(|&at| self.name(at) == Some(name.as_bytes()))?;
        let place = self.start.checked_add(at.checked_mul(self.width)?)?;
        let kinds = self.start.checked_add(self.count.checked_mul(self.width)?)?;
        FlexValue::new(self.bytes, place, self.width, *self.bytes.get(kinds.checked_add(at)?)?)
    }

    fn name(&self, at: usize) -> Option<&'a [u8]> {
        let place = self.names.checked_add(at.checked_mul(self.name_width)?)?;
        let start = place.checked_sub(unsigned(self.bytes, place, self.name_width)?)?;
        self.bytes.get(start..)?.split(|&byte| byte == 0).next()
    }
}

impl<'a> FlexValue<'a> {
    fn new(bytes: &'a [u8], place: usize, width: usize, packed: u8) -> Option<Self> {
        let own_width = 1usize << (packed & 3);
        Some(Self { bytes, place, width, kind: packed >> 2, own_width })
    }

    /// The place that an offset leads to.
    fn target(&self) -> Option<usize> {
        self.place.checked_sub(unsigned(self.bytes, self.place, self.width)?)
    }

    /// The number of elements in front of a place.
    fn count_before(&self, target: usize) -> Option<usize> {
        unsigned(self.bytes, target.checked_sub(self.own_width)?, self.own_width)
    }

    fn number(&self) -> Option<f64> {
        if (INDIRECT_INT..=INDIRECT_FLOAT).contains(&self.kind) {
            let kind = self.kind.checked_sub(INDIRECT_INT)?.checked_add(INT)?;
            let (place, width) = (self.target()?, self.own_width);
            return Self { place, width, kind, ..*self }.number();
        }
        let value = self.bytes.get(self.place..self.place.checked_add(self.width)?)?;
        match self.kind {
            #[expect(clippy::cast_precision_loss, reason = "options are small numbers")]
            INT => Some(signed(value)? as f64),
            #[expect(clippy::cast_precision_loss, reason = "options are small numbers")]
            UINT | BOOL => Some(unsigned(self.bytes, self.place, self.width)? as f64),
            FLOAT => match value.len() {
                4 => Some(f64::from(f32::from_le_bytes(value.try_into().ok()?))),
                8 => Some(f64::from_le_bytes(value.try_into().ok()?)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The elements of a vector: of any type, of one type, or of one type and two to four of them.
    fn numbers(&self) -> Option<Vec<f64>> {
        let (target, width) = (self.target()?, self.own_width);
        let (count, kind) = match self.kind {
            VECTOR => (self.count_before(target)?, None),
            VECTOR_INT..=VECTOR_FLOAT => {
                let kind = self.kind.checked_sub(VECTOR_INT)?.checked_add(INT)?;
                (self.count_before(target)?, Some(kind))
            }
            VECTOR_INT2..=VECTOR_FLOAT4 => {
                let at = self.kind.checked_sub(VECTOR_INT2)?;
                let (more, kind) = (at.checked_div(3)?, at.checked_rem(3)?);
                (usize::from(more).checked_add(2)?, Some(kind.checked_add(INT)?))
            }
            VECTOR_BOOL => (self.count_before(target)?, Some(BOOL)),
            _ => return None,
        };
        if count > MOST_NUMBERS {
            return None;
        }
        let kinds = target.checked_add(count.checked_mul(width)?)?;
        let number = |at: usize| {
            let place = target.checked_add(at.checked_mul(width)?)?;
            match kind {
                Some(kind) => Self { place, width, kind, ..*self }.number(),
                None => {
                    let packed = *self.bytes.get(kinds.checked_add(at)?)?;
                    FlexValue::new(self.bytes, place, width, packed)?.number()
                }
            }
        };
        (0..count).map(number).collect()
    }

    fn text(&self) -> Option<&'a str> {
        let target = self.target()?;
        let bytes = match self.kind {
            STRING => {
                let count = self.count_before(target)?;
                self.bytes.get(target..target.checked_add(count)?)?
            }
            KEY => self.bytes.get(target..)?.split(|&byte| byte == 0).next()?,
            _ => return None,
        };
        std::str::from_utf8(bytes).ok()
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

    /// `{"k": [1, 2, 2, 1], "m": [3, 0.5], "t": "SAME", "x": 1 << 40}` with values of one byte.
    fn lists() -> Vec<u8> {
        let mut bytes = b"k\0m\0t\0x\0".to_vec();
        bytes.push(4); // a text and its length
        let text = bytes.len();
        bytes.extend(b"SAME\0");
        let typed = bytes.len();
        bytes.extend([1, 2, 2, 1]);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(2u32.to_le_bytes());
        let mixed = bytes.len();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(0.5f32.to_le_bytes());
        bytes.extend([INT << 2 | 2, FLOAT << 2 | 2]);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let far = bytes.len();
        bytes.extend((1i64 << 40).to_le_bytes());
        bytes.push(4); // names
        let names = bytes.len();
        let back = |from: usize, to: usize| u8::try_from(from - to).unwrap();
        for name in 0..4 {
            bytes.push(back(names + name, 2 * name));
        }
        bytes.push(back(bytes.len(), names));
        bytes.extend([1, 4]);
        let start = bytes.len();
        for (at, target) in [typed, mixed, text, far].into_iter().enumerate() {
            bytes.push(back(start + at, target));
        }
        bytes.extend([22 << 2, VECTOR << 2 | 2, STRING << 2, INDIRECT_INT << 2 | 3]);
        bytes.push(back(bytes.len(), start));
        bytes.extend([MAP << 2, 1]);
        bytes
    }

    #[test]
    fn lists_and_texts_go_by_their_names() {
        let bytes = lists();
        let map = FlexMap::root(&bytes).unwrap();
        assert_eq!(map.numbers("k"), Some(vec![1.0, 2.0, 2.0, 1.0]));
        assert_eq!(map.numbers("m"), Some(vec![3.0, 0.5]));
        assert_eq!(map.text("t"), Some("SAME"));
        assert_eq!(map.number("x"), Some(f64::from(1u32 << 30) * 1024.0));
        assert_eq!((map.number("k"), map.numbers("t"), map.text("x")), (None, None, None));
    }

    fn ask(bytes: &[u8]) {
        let Some(map) = FlexMap::root(bytes) else { return };
        for name in ["a", "c", "k", "m", "t", "x"] {
            map.number(name);
            map.numbers(name);
            map.text(name);
        }
    }

    #[test]
    fn broken_buffers_end() {
        for bytes in [map(), lists()] {
            (0..bytes.len()).for_each(|cut| ask(&bytes[cut..]));
            for at in 0..bytes.len() {
                for value in [0, 1, 0x28, 0x7f, 0xff] {
                    let mut broken = bytes.clone();
                    broken[at] = value;
                    ask(&broken);
                }
            }
        }
    }
}
