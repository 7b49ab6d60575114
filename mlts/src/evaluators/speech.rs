//! The distortion of synthetic speech: mel cepstrum and log F0, by the rules of Android's suite.

use super::difference::{ElementType, values};
use crate::num::real;

/// Values of a frame: 40 of the spectrum, 7 aperiodicities, log F0, voicing.
const FRAME: usize = 49;
const SPECTRUM: usize = 40;
const LOG_F0: usize = 47;
const VOICING: usize = 48;

/// Means and deviations that make a model's outputs physical.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpeechScale {
    pairs: Vec<(f64, f64)>,
}

impl SpeechScale {
    /// Of a raw file: a mean and a deviation, as floats, for each output.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let floats = values(ElementType::Float32, bytes);
        let pairs = floats.as_chunks::<2>().0.iter();
        Self { pairs: pairs.map(|&[mean, deviation]| (mean, deviation)).collect() }
    }

    /// The outputs of all steps as physical values.
    fn physical(&self, bytes: &[u8]) -> Vec<f64> {
        let outputs = values(ElementType::Float32, bytes);
        let scales = self.pairs.iter().cycle();
        outputs.iter().zip(scales).map(|(value, (mean, sd))| value * sd + mean).collect()
    }
}

/// The distortion of the mel cepstrum and the error of log F0 of a sentence.
pub(crate) fn mel_cepstral(actual: &[u8], expected: &[u8], scale: &SpeechScale) -> (f64, f64) {
    let (got, want) = (scale.physical(actual), scale.physical(expected));
    let (mut squares, mut count) = (0.0, 0_usize);
    let (mut f0_squares, mut f0_count) = (0.0, 0_usize);
    for (got, want) in got.chunks_exact(FRAME).zip(want.chunks_exact(FRAME)) {
        // Value 0 is loudness, which doesn't count.
        for (got, want) in got.iter().zip(want).take(SPECTRUM).skip(1) {
            squares += (got - want).powi(2);
            count += 1;
        }
        let both = |at: usize| got.get(at).copied().zip(want.get(at).copied());
        if let (Some((got_voiced, want_voiced)), Some((got, want))) = (both(VOICING), both(LOG_F0))
            && got_voiced > 0.0
            && want_voiced > 0.0
        {
            f0_squares += (got - want).powi(2);
            f0_count += 1;
        }
    }
    let root = |sum: f64, count: usize| if count == 0 { 0.0 } else { (sum / real(count)).sqrt() };
    if got.len() != want.len() || got.iter().any(|value| !value.is_finite()) {
        return (f64::INFINITY, f64::INFINITY);
    }
    (root(squares, count), root(f0_squares, f0_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(change: impl Fn(usize) -> f32) -> Vec<u8> {
        (0..FRAME).flat_map(|at| change(at).to_le_bytes()).collect()
    }

    fn unit() -> SpeechScale {
        SpeechScale { pairs: vec![(0.0, 1.0); FRAME] }
    }

    #[test]
    fn the_spectrum_counts_without_its_first_value() {
        let (a, b) = (frame(|_| 1.0), frame(|at| if at < SPECTRUM { 3.0 } else { 1.0 }));
        assert_eq!(mel_cepstral(&b, &a, &unit()), (2.0, 0.0));
        let loud = frame(|at| if at == 0 { 9.0 } else { 1.0 });
        assert_eq!(mel_cepstral(&loud, &a, &unit()), (0.0, 0.0));
    }

    #[test]
    fn f0_counts_where_both_are_voiced() {
        let voiced = frame(|_| 1.0);
        let higher = frame(|at| if at == LOG_F0 { 1.5 } else { 1.0 });
        assert_eq!(mel_cepstral(&higher, &voiced, &unit()), (0.0, 0.5));
        let silent = frame(|at| {
            if at == LOG_F0 {
                1.5
            } else if at == VOICING {
                -1.0
            } else {
                1.0
            }
        });
        assert_eq!(mel_cepstral(&silent, &voiced, &unit()), (0.0, 0.0));
    }

    #[test]
    fn values_are_made_physical_and_what_is_none_is_infinitely_wrong() {
        let scale = SpeechScale { pairs: vec![(5.0, 2.0); FRAME] };
        let (a, b) = (frame(|_| 1.0), frame(|at| if at < SPECTRUM { 2.0 } else { 1.0 }));
        assert_eq!(mel_cepstral(&b, &a, &scale), (2.0, 0.0));
        let nan = frame(|_| f32::NAN);
        assert_eq!(mel_cepstral(&nan, &a, &scale).0, f64::INFINITY);
        assert_eq!(mel_cepstral(&a[4..], &a, &scale).0, f64::INFINITY);
    }
}
