//! What goes into the gates of quantised cells: two rows of sums, each by a multiplier of its own, added up and
//! saturated to 16 bits at each step.

mod scalar;
mod vectors;

use super::requantise::{Channels, Scaling};
use super::{Form, Isa, best, numbers};
use crate::quant::Multiplier;

/// Rows of `len` numbers.
#[derive(Clone, Copy, Debug)]
struct Rows {
    inputs: [*const i32; 2],
    /// Of the first row to 16 bits, of the second to more than make a difference; all lanes alike.
    scalings: [Channels; 2],
    output: *mut i32,
    len: usize,
}

/// # Safety
/// The rows are as long as stated; the machine has the instruction set.
type Run = unsafe fn(&Rows);

/// Best first.
const FORMS: &[Form<Run>] = numbers::forms!(vectors::Add, scalar::add);

/// The range of 16 bits.
const RANGE: (i32, i32) = (-32_768, 32_767);

/// Beyond this a second summand saturates whatever the first is, and below it no sum overflows.
const FAR: i32 = 1 << 20;

/// The scaled sum of two rows.
#[derive(Debug)]
pub(crate) struct Gates {
    form: Form<Run>,
    scalings: [Scaling; 2],
}

impl Gates {
    /// With the multipliers of both rows.
    pub(crate) fn new(isa: Isa, [first, second]: [Multiplier; 2]) -> Self {
        let scaling = |m, range| Scaling::new(&[m], 64, 0, range);
        let scalings = [scaling(first, RANGE), scaling(second, (-FAR, FAR))];
        Self { form: best(FORMS, isa), scalings }
    }

    /// `output = saturated(saturated(a * first) + b * second)`, each product rounded twice.
    ///
    /// # Errors
    /// A row is shorter than the output.
    pub(crate) fn compute(&self, a: &[i32], b: &[i32], output: &mut [i32]) -> Result<(), String> {
        super::check_lengths(a.len().min(b.len()), output.len())?;
        let rows = Rows {
            inputs: [a.as_ptr(), b.as_ptr()],
            scalings: [self.scalings[0].from(0), self.scalings[1].from(0)],
            output: output.as_mut_ptr(),
            len: output.len(),
        };
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.form.run)(&rows) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_saturates_and_rounds_alike() {
        let number = |at: usize| match at % 9 {
            0 => i32::MAX,
            1 => i32::MIN,
            2 => 0,
            _ => (i32::try_from(at * 2_654_435_761 % (1 << 31)).unwrap() - (1 << 30)) >> (at % 23),
        };
        for shift in [-31, -12, -3, 0, 1, 9] {
            let multipliers = [
                Multiplier { fraction: 1_518_500_250, shift },
                Multiplier { fraction: (1 << 30) + 77, shift: shift / 2 },
            ];
            for form in crate::kernels::detected(FORMS) {
                for len in (0..40).chain([256]) {
                    let a: Vec<i32> = (0..len).map(number).collect();
                    let b: Vec<i32> = (0..len).map(|at| number(at + 5)).collect();
                    let mut got = vec![0; len];
                    Gates::new(form.isa, multipliers).compute(&a, &b, &mut got).unwrap();
                    for (at, got) in got.into_iter().enumerate() {
                        let first = multipliers[0].apply(a[at]).clamp(RANGE.0, RANGE.1);
                        let want = first.saturating_add(multipliers[1].apply(b[at]));
                        let want = want.clamp(RANGE.0, RANGE.1);
                        assert_eq!(got, want, "{:?} {shift}: {} and {}", form.isa, a[at], b[at]);
                    }
                }
            }
        }
        let one = Multiplier { fraction: 1 << 30, shift: 1 };
        assert!(Gates::new(Isa::Scalar, [one; 2]).compute(&[1], &[], &mut [0]).is_err());
    }
}
