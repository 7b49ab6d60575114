//! Comparisons of bytes as the numbers that they stand for: beside each byte of the first operand a
//! test holds for the bytes of the second from one on up to another, which two tables tell.

use nnburst_kernels::kernels::byte_table::ByteTable;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, Out};

use super::broadcast::{Broadcast, Row, RowsOfBytes, emit_rows_of_bytes};
use super::compare::Test;
use crate::lowering::{Label, OpBuilder};

/// The numbers that bytes stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    /// Of each byte.
    numbers: [f64; 256],
    is_signed: bool,
}

impl Meaning {
    /// Of signed or unsigned bytes.
    pub(super) fn new(is_signed: bool, number: impl Fn(i32) -> f64) -> Self {
        let stored = |byte: u8| match is_signed {
            true => i32::from(byte.cast_signed()),
            false => i32::from(byte),
        };
        let mut numbers = [0.0; 256];
        numbers.iter_mut().zip(0..=u8::MAX).for_each(|(to, byte)| *to = number(stored(byte)));
        Self { numbers, is_signed }
    }

    /// The bits in which bytes differ from their places in the order of the integers that they are.
    fn flip(&self) -> u8 {
        if self.is_signed { 0x80 } else { 0 }
    }
}

/// Adds a step that tells whether a test holds for each pair of bytes of inputs 0 and 1.
pub(super) fn emit(
    op: &mut OpBuilder<'_>,
    label: Label,
    broadcast: Broadcast,
    test: Test,
    operands: &[Meaning; 2],
) {
    let row: Box<Row> = match Bounds::new(op.isa(), test, operands) {
        Some(bounds) => Box::new(move |a, b, to| bounds.compute(a, b, to)),
        None => {
            let list = List::new(test, operands);
            Box::new(move |a, b, to| {
                list.compute(a, b, to);
                Ok(())
            })
        }
    };
    emit_rows_of_bytes(op, label, broadcast, RowsOfBytes { sizes: [1, 1], zips: true, row });
}

/// Results at a time.
const CHUNK: usize = 512;

/// For each byte of the first operand the least and the greatest byte of the second for which the
/// test holds.
#[derive(Debug)]
struct Bounds {
    isa: Isa,
    least: ByteTable,
    greatest: ByteTable,
    /// The bits in which bytes of the second operand differ from what is compared.
    flip: u8,
    /// 1 if the test holds for all others.
    negated: u8,
}

impl Bounds {
    /// `None` where the second operand's numbers do not grow with its bytes.
    fn new(isa: Isa, test: Test, [a, b]: &[Meaning; 2]) -> Option<Self> {
        let flip = b.flip();
        let mut numbers = [0.0; 256];
        let places = (0..=u8::MAX).map(|place| usize::from(place ^ flip));
        numbers.iter_mut().zip(places).for_each(|(to, byte)| *to = b.numbers[byte]);
        if !numbers.is_sorted() || a.numbers.iter().any(|number| number.is_nan()) {
            return None;
        }
        // Where it holds for none, the greatest is below the least.
        let (mut least, mut greatest) = ([1; 256], [0; 256]);
        for (byte, a) in a.numbers.iter().enumerate() {
            let (equal, above) =
                (numbers.partition_point(|b| b < a), numbers.partition_point(|b| b <= a));
            let holds = match test {
                Test::Less => above..256,
                Test::LessEqual => equal..256,
                Test::Greater => 0..equal,
                Test::GreaterEqual => 0..above,
                Test::Equal | Test::NotEqual => equal..above,
            };
            if let (Ok(first), Some(Ok(last))) =
                (u8::try_from(holds.start), holds.end.checked_sub(1).map(u8::try_from))
                && first <= last
            {
                (least[byte], greatest[byte]) = (first, last);
            }
        }
        let [least, greatest] = [least, greatest].map(|table| ByteTable::new(isa, table));
        Some(Self { isa, least, greatest, flip, negated: u8::from(test == Test::NotEqual) })
    }

    /// Tests the pairs of a row; of an operand of one byte that one.
    fn compute(&self, a: In<'_, u8>, b: In<'_, u8>, output: Out<'_, u8>) -> Result<(), String> {
        let len = output.len();
        let (mut least, mut greatest) = ([0; CHUNK], [0; CHUNK]);
        for at in (0..len).step_by(CHUNK) {
            let end = len.min(at + CHUNK);
            let part = |of: In<'_, u8>| if of.len() == len { at..end } else { 0..1 };
            let (a, b) = (a.slice(part(a)), b.slice(part(b)));
            let (least, greatest) = (&mut least[..a.len()], &mut greatest[..a.len()]);
            self.least.compute(a, Out::of(least))?;
            self.greatest.compute(a, Out::of(greatest))?;
            let bounds = [In::of(least), In::of(greatest)];
            self.isa.run(Between {
                values: b,
                bounds,
                output: output.slice(at..end),
                flip: self.flip,
                negated: self.negated,
            });
        }
        Ok(())
    }
}

/// A row of tests whether values are within bounds, either of which may be one for all.
struct Between<'a> {
    values: In<'a, u8>,
    bounds: [In<'a, u8>; 2],
    output: Out<'a, u8>,
    flip: u8,
    negated: u8,
}

impl Loop for Between<'_> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 64;
        let Self { values, bounds: [least, greatest], output, flip, negated } = self;
        let len = output.len();
        let test = |value: u8, least: u8, greatest: u8| {
            let value = value ^ flip;
            u8::from((value >= least) & (value <= greatest)) ^ negated
        };
        let block = |of: In<'_, u8>, at: usize| -> [u8; BLOCK] {
            if of.len() == len { of.block(at) } else { [of.get(0); BLOCK] }
        };
        let one = |of: In<'_, u8>, at: usize| of.get(if of.len() == len { at } else { 0 });
        let whole = len / BLOCK * BLOCK;
        for at in (0..whole).step_by(BLOCK) {
            let (values, least) = (block(values, at), block(least, at));
            let greatest = block(greatest, at);
            let mut results = [0; BLOCK];
            for lane in 0..BLOCK {
                results[lane] = test(values[lane], least[lane], greatest[lane]);
            }
            output.set_block(at, results);
        }
        for at in whole..len {
            output.set(at, test(one(values, at), one(least, at), one(greatest, at)));
        }
    }
}

/// A bit for each pair of bytes.
#[derive(Debug)]
struct List(Box<[u8; 1 << 13]>);

impl List {
    fn new(test: Test, [a, b]: &[Meaning; 2]) -> Self {
        let (holds, mut bits) = (test.holds(), Box::new([0; 1 << 13]));
        for (&a, bits) in a.numbers.iter().zip(bits.as_chunks_mut::<32>().0) {
            for (byte, _) in b.numbers.iter().enumerate().filter(|&(_, &b)| holds.of(a, b)) {
                bits[byte / 8] |= 1 << (byte % 8);
            }
        }
        Self(bits)
    }

    /// As [`Bounds::compute`].
    fn compute(&self, a: In<'_, u8>, b: In<'_, u8>, output: Out<'_, u8>) {
        let len = output.len();
        let one = |of: In<'_, u8>, at: usize| of.get(if of.len() == len { at } else { 0 });
        for at in 0..len {
            let (a, b) = (one(a, at), one(b, at));
            output.set(at, self.0[usize::from(a) * 32 + usize::from(b / 8)] >> (b % 8) & 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: [Test; 6] = [
        Test::Equal,
        Test::NotEqual,
        Test::Less,
        Test::LessEqual,
        Test::Greater,
        Test::GreaterEqual,
    ];

    /// Every pair, in rows of every length about a block, and each operand as one byte.
    fn check(
        test: Test,
        [a, b]: &[Meaning; 2],
        compute: impl Fn(In<'_, u8>, In<'_, u8>, Out<'_, u8>) -> Result<(), String>,
    ) {
        let want = |x: u8, y: u8| {
            let (x, y) = (a.numbers[usize::from(x)], b.numbers[usize::from(y)]);
            u8::from(match test {
                Test::Equal => x == y,
                Test::NotEqual => x != y,
                Test::Less => x < y,
                Test::LessEqual => x <= y,
                Test::Greater => x > y,
                Test::GreaterEqual => x >= y,
            })
        };
        let all: Vec<u8> = (0..=u8::MAX).cycle().take(1000).collect();
        for one in 0..=u8::MAX {
            let mut got = [2; 256];
            compute(In::of(&[one]), In::of(&all[..256]), Out::of(&mut got)).unwrap();
            assert!(got.iter().zip(0..=u8::MAX).all(|(&got, y)| got == want(one, y)), "{one}");
            let mut got = [2; 256];
            compute(In::of(&all[..256]), In::of(&[one]), Out::of(&mut got)).unwrap();
            assert!(got.iter().zip(0..=u8::MAX).all(|(&got, x)| got == want(x, one)), "{one}");
        }
        for len in (1..=130).chain([512, 600, 700]) {
            let (x, y) = (&all[..len], &all[300 - len / 3..][..len]);
            let mut got = vec![2; len];
            compute(In::of(x), In::of(y), Out::of(&mut got)).unwrap();
            let want: Vec<u8> = x.iter().zip(y).map(|(&x, &y)| want(x, y)).collect();
            assert_eq!(got, want, "{test:?} of {len} bytes");
        }
    }

    #[test]
    fn tests_within_bounds_are_those_of_the_numbers() {
        let linear = |is_signed, scale: f64, zero: i32| {
            Meaning::new(is_signed, move |x| f64::from(x - zero) * scale)
        };
        let truth = Meaning::new(false, |x| f64::from(u8::from(x != 0)));
        let coarse = Meaning::new(true, |x| f64::from(x / 3));
        for operands in [
            [linear(true, 0.5, -3), linear(true, 0.75, 40)],
            [linear(false, 0.5, 200), linear(false, 9.0, 128)],
            [truth, truth],
            [coarse, linear(true, 0.1, 0)],
        ] {
            for (isa, test) in Isa::all().flat_map(|isa| TESTS.map(|test| (isa, test))) {
                let bounds = Bounds::new(isa, test, &operands).unwrap();
                check(test, &operands, |a, b, to| bounds.compute(a, b, to));
            }
        }
    }

    #[test]
    fn numbers_in_no_order_are_listed() {
        let back = Meaning::new(true, |x| f64::from(-x));
        let wild = Meaning::new(false, |x| f64::from(x * 37 % 64));
        let none = Meaning::new(false, |x| if x == 7 { f64::NAN } else { f64::from(x) });
        for operands in [[back, back], [back, wild], [wild, none], [none, wild]] {
            for test in TESTS {
                assert!(Bounds::new(Isa::best(), test, &operands).is_none());
                let list = List::new(test, &operands);
                check(test, &operands, |a, b, to| {
                    list.compute(a, b, to);
                    Ok(())
                });
            }
        }
    }
}
