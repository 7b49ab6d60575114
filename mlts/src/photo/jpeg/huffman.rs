//! Entropy-coded bits: Huffman tables and the reader that takes them off a scan.

/// The codes of one table, canonical as the standard's annex C makes them.
#[derive(Clone, Debug, Default)]
pub(super) struct HuffmanTable {
    /// By code length less one: the largest code, or -1 where there is none.
    largest: [i32; 16],
    /// By code length less one: what to add to a code to find its value.
    offset: [i32; 16],
    values: Vec<u8>,
}

impl HuffmanTable {
    /// From the counts per length and the values, as a DHT segment carries them; `None` if they are
    /// no code.
    pub(super) fn new(counts: &[u8; 16], values: &[u8]) -> Option<Self> {
        let mut table = Self { largest: [-1; 16], offset: [0; 16], values: values.to_vec() };
        let (mut code, mut next) = (0i32, 0i32);
        for ((&count, largest), offset) in
            counts.iter().zip(&mut table.largest).zip(&mut table.offset)
        {
            code <<= 1;
            if count > 0 {
                *offset = next - code;
                code += i32::from(count);
                next += i32::from(count);
                *largest = code - 1;
            }
        }
        // More codes of a length than there are bits for would be found under the wrong value.
        (code <= 1 << 16 && usize::try_from(next) == Ok(values.len())).then_some(table)
    }
}

/// Takes bits off a scan, most significant first.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    buffer: u32,
    held: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, buffer: 0, held: 0 }
    }

    /// The value of the next code; `None` at the end of the data or at a code that isn't in the
    /// table.
    pub(super) fn value(&mut self, table: &HuffmanTable) -> Option<u8> {
        let mut code = 0;
        for (&largest, &offset) in table.largest.iter().zip(&table.offset) {
            code = code << 1 | self.bits(1)?;
            if code <= largest {
                return table.values.get(usize::try_from(code + offset).ok()?).copied();
            }
        }
        None
    }

    /// A number of `size` bits in the standard's signed form (its procedures RECEIVE and EXTEND).
    pub(super) fn signed(&mut self, size: u8) -> Option<i32> {
        if size == 0 {
            return Some(0);
        }
        let bits = self.bits(u32::from(size))?;
        Some(if bits < 1 << (size - 1) { bits - (1 << size) + 1 } else { bits })
    }

    /// At most 16 bits.
    fn bits(&mut self, count: u32) -> Option<i32> {
        while self.held < count {
            let byte = *self.bytes.get(self.at)?;
            if byte == 0xFF {
                // A stuffed zero follows a byte of ones; anything else is a marker, where data
                // ends.
                if *self.bytes.get(self.at + 1)? != 0 {
                    return None;
                }
                self.at += 1;
            }
            self.at += 1;
            self.buffer = self.buffer << 8 | u32::from(byte);
            self.held += 8;
        }
        self.held -= count;
        let bits = self.buffer >> self.held & ((1 << count) - 1);
        i32::try_from(bits).ok()
    }

    /// Drops the bits of the interval and the restart marker behind it.
    pub(super) fn restart(&mut self) -> Option<()> {
        (self.buffer, self.held) = (0, 0);
        match self.bytes.get(self.at..self.at + 2)? {
            [0xFF, 0xD0..=0xD7] => {
                self.at += 2;
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_standard_come_out() {
        // Lengths 2, 2, 3: codes 00, 01, 100.
        let mut counts = [0; 16];
        (counts[1], counts[2]) = (2, 1);
        let table = HuffmanTable::new(&counts, &[10, 20, 30]).unwrap();
        let mut bits = Bits::new(&[0b0001_1000]);
        assert_eq!(
            [bits.value(&table), bits.value(&table), bits.value(&table)],
            [Some(10), Some(20), Some(30)]
        );
        assert!(HuffmanTable::new(&counts, &[1]).is_none(), "fewer values than codes");
        counts[0] = 200;
        assert!(HuffmanTable::new(&counts, &[0; 203]).is_none(), "more codes than bits");
    }

    #[test]
    fn numbers_extend_and_stuffed_zeros_vanish() {
        let mut bits = Bits::new(&[0xFF, 0x00, 0b0110_0000, 0xFF, 0xD9]);
        assert_eq!(bits.signed(8), Some(255));
        assert_eq!(bits.signed(3), Some(-4));
        assert_eq!(bits.signed(5), Some(-31));
        assert_eq!(bits.signed(1), None, "a marker ends the data");
    }
}
