//! The fixed-point logistic function and hyperbolic tangent of 16 bits as tables of all 65,536
//! results.
//!
//! Computed one by one they took most of a quantised cell's time (some 40 ns each); a table of 128
//! KiB, of which a model touches a small part, answers in a few. They are made once per process.

use once_cell::race::OnceBox;

use nnburst_kernels::tensor::quant::fixed;

/// A function of 16 bits.
pub(super) type Curve = &'static [i16; COUNT];

const COUNT: usize = 1 << 16;

/// Integer bits that cell states may have.
const FORMATS: usize = 7;

/// The logistic function of numbers with 3 integer bits.
pub(super) fn logistic() -> Curve {
    static TABLE: OnceBox<[i16; COUNT]> = OnceBox::new();
    TABLE.get_or_init(|| table(|x| fixed::logistic(x, 3)))
}

/// The hyperbolic tangent of numbers with 3 integer bits.
pub(super) fn gate_tanh() -> Curve {
    static TABLE: OnceBox<[i16; COUNT]> = OnceBox::new();
    TABLE.get_or_init(|| table(|x| fixed::tanh(x, 3)))
}

/// The hyperbolic tangent of numbers with `integer_bits`; `None` where no table is kept.
pub(super) fn tanh(integer_bits: i32) -> Option<Curve> {
    static TABLES: [OnceBox<[i16; COUNT]>; FORMATS] = [const { OnceBox::new() }; FORMATS];
    let slot = TABLES.get(usize::try_from(integer_bits).ok()?)?;
    Some(slot.get_or_init(|| table(|x| fixed::tanh(x, integer_bits))))
}

/// The value at `x`.
#[inline(always)]
pub(super) fn at(curve: Curve, x: i16) -> i16 {
    curve[usize::from(x.cast_unsigned())]
}

fn table(of: impl Fn(i16) -> i16) -> Box<[i16; COUNT]> {
    let mut table = Box::new([0; COUNT]);
    for (value, x) in table.iter_mut().zip(0..=u16::MAX) {
        *value = of(x.cast_signed());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_the_functions() {
        for x in (i16::MIN..=i16::MAX).step_by(251).chain([0, -1, 1, i16::MAX]) {
            assert_eq!(at(logistic(), x), fixed::logistic(x, 3));
            assert_eq!(at(gate_tanh(), x), fixed::tanh(x, 3));
            assert_eq!(at(tanh(4).unwrap(), x), fixed::tanh(x, 4));
        }
        assert!(tanh(-1).is_none() && tanh(7).is_none());
    }
}
