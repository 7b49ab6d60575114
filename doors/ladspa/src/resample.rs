//! Between 48 kHz and 16 kHz: one sample for three, and back.
//!
//! Both ways go through the same low-pass filter of linear phase, a sinc under a Kaiser window.
//! Each way delays by [`TAPS`]` / 2` samples at 48 kHz, 1 ms: flat to 6.8 kHz within 0.02 dB, and
//! 60 dB down from 8.7 kHz on. What lies between folds into the frequencies above 7.3 kHz.

use std::f64::consts::PI;

/// The ratio of the rates.
pub(crate) const FACTOR: usize = 3;

/// Coefficients of the filter.
pub(crate) const TAPS: usize = 97;

/// The delay of both ways together, in samples at 48 kHz.
pub(crate) const DELAY: usize = TAPS - 1;

/// Coefficients of a phase of the way up, the last with a zero.
const PHASE_TAPS: usize = TAPS.div_ceil(FACTOR);

/// A smaller sample counts as 0, 600 dB below full scale. A sound that fades away would end in
/// subnormal numbers, whose products take a hundred times as long on many processors, in the
/// thread of a host that leaves them as they are.
const SILENCE: f32 = 1e-30;

const RATE: f64 = 48_000.0;
/// The frequency at which the filter is 6 dB down.
const CUTOFF: f64 = 7_750.0;
/// The window's shape: side lobes below -60 dB.
const BETA: f64 = 5.65;

/// The filter, with a gain of 1 for a constant.
fn coefficients() -> [f64; TAPS] {
    let centre = (TAPS - 1) as f64 / 2.0;
    let mut taps = [0.0; TAPS];
    for (at, tap) in taps.iter_mut().enumerate() {
        let distance = at as f64 - centre;
        let sinc = if distance == 0.0 {
            2.0 * CUTOFF / RATE
        } else {
            (2.0 * PI * CUTOFF / RATE * distance).sin() / (PI * distance)
        };
        let edge = distance / centre;
        *tap = sinc * bessel(BETA * (1.0 - edge * edge).max(0.0).sqrt()) / bessel(BETA);
    }
    let sum: f64 = taps.iter().sum();
    taps.map(|tap| tap / sum)
}

/// The modified Bessel function of the first kind, order 0, for small arguments.
fn bessel(x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..40 {
        term *= (x / 2.0 / f64::from(k)).powi(2);
        sum += term;
    }
    sum
}

#[expect(clippy::cast_possible_truncation, reason = "samples are of single precision")]
fn narrow(x: f64) -> f32 {
    x as f32
}

/// The last `N` values, each kept twice, so that they always lie in one piece.
#[derive(Clone, Debug)]
struct History<const N: usize> {
    values: Box<[f32]>,
    at: usize,
}

impl<const N: usize> History<N> {
    fn new() -> Self {
        Self { values: vec![0.0; 2 * N].into(), at: 0 }
    }

    fn push(&mut self, value: f32) {
        let value = if value.abs() < SILENCE { 0.0 } else { value };
        self.values[self.at] = value;
        self.values[self.at + N] = value;
        self.at = (self.at + 1) % N;
    }

    /// The values, the oldest first.
    fn values(&self) -> &[f32] {
        &self.values[self.at..self.at + N]
    }

    fn clear(&mut self) {
        self.values.fill(0.0);
    }
}

fn product(coefficients: &[f32], values: &[f32]) -> f32 {
    // Four sums: a vector's lanes, as a single one may not be reordered.
    let mut sums = [0.0; 4];
    let (xs, x_rest) = coefficients.as_chunks::<4>();
    let (ys, y_rest) = values.as_chunks::<4>();
    for (x, y) in xs.iter().zip(ys) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += x * y;
        }
    }
    let rest: f32 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}

/// 48 kHz to 16 kHz.
#[derive(Clone, Debug)]
pub(crate) struct Down {
    taps: [f32; TAPS],
    history: History<TAPS>,
}

impl Down {
    pub(crate) fn new() -> Self {
        // The filter is its own mirror image, so that it may lie along the history.
        Self { taps: coefficients().map(narrow), history: History::new() }
    }

    /// Takes a sample at 48 kHz.
    pub(crate) fn push(&mut self, sample: f32) {
        self.history.push(sample);
    }

    /// The sample at 16 kHz that ends with the last one pushed; to be taken after every third.
    pub(crate) fn sample(&self) -> f32 {
        product(&self.taps, self.history.values())
    }

    pub(crate) fn clear(&mut self) {
        self.history.clear();
    }
}

/// 16 kHz to 48 kHz.
#[derive(Clone, Debug)]
pub(crate) struct Up {
    phases: [[f32; PHASE_TAPS]; FACTOR],
    history: History<PHASE_TAPS>,
}

impl Up {
    pub(crate) fn new() -> Self {
        let taps = coefficients();
        let mut phases = [[0.0; PHASE_TAPS]; FACTOR];
        for (phase, coefficients) in phases.iter_mut().enumerate() {
            let of_phase = || taps.iter().skip(phase).step_by(FACTOR);
            // A constant stays one in every phase.
            let sum: f64 = of_phase().sum();
            for (at, tap) in of_phase().enumerate() {
                coefficients[PHASE_TAPS - 1 - at] = narrow(tap / sum);
            }
        }
        Self { phases, history: History::new() }
    }

    /// Takes a sample at 16 kHz.
    pub(crate) fn push(&mut self, sample: f32) {
        self.history.push(sample);
    }

    /// The sample at 48 kHz, `phase` (0, 1, 2) samples after that of the last one pushed.
    pub(crate) fn sample(&self, phase: usize) -> f32 {
        product(&self.phases[phase], self.history.values())
    }

    pub(crate) fn clear(&mut self) {
        self.history.clear();
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "samples of tests")]
mod tests {
    use super::*;

    /// A tone at 48 kHz down and up again: what comes out, without the delay.
    fn there_and_back(frequency: f64) -> (Vec<f32>, Vec<f32>) {
        let (mut down, mut up) = (Down::new(), Up::new());
        let tone = |at: usize| (2.0 * PI * frequency / RATE * at as f64).sin() as f32;
        let heard: Vec<f32> = (0..9600).map(tone).collect();
        let mut out = Vec::new();
        for (at, &sample) in heard.iter().enumerate() {
            down.push(sample);
            if at % FACTOR == FACTOR - 1 {
                up.push(down.sample());
            }
            out.push(up.sample((at + 1) % FACTOR));
        }
        (heard, out.split_off(DELAY))
    }

    fn decibels(x: f32) -> f32 {
        20.0 * x.log10()
    }

    fn largest(samples: &[f32]) -> f32 {
        samples.iter().map(|x| x.abs()).fold(0.0, f32::max)
    }

    #[test]
    fn no_subnormal_number_is_filtered() {
        for faint in [1e-31, -1e-40, f32::from_bits(1)] {
            let mut down = Down::new();
            (0..TAPS).for_each(|_| down.push(faint));
            assert_eq!(down.sample().to_bits(), 0, "{faint:e}");
        }
        // What is next to it is filtered: no product of it is subnormal either.
        let mut down = Down::new();
        (0..TAPS).for_each(|_| down.push(1e-30));
        assert!((down.sample() / 1e-30 - 1.0).abs() < 1e-5);
        down.push(f32::NAN);
        assert!(down.sample().is_nan(), "what is wrong stays to be seen");
    }

    #[test]
    fn speech_passes_with_the_delay_and_nothing_else() {
        for frequency in [50.0, 440.0, 1000.0, 3400.0, 6000.0, 6800.0] {
            let (heard, out) = there_and_back(frequency);
            let apart: Vec<f32> = heard.iter().zip(&out).map(|(a, b)| a - b).collect();
            let error = decibels(largest(&apart[500..]));
            // What is left of the images above 8 kHz counts as well.
            assert!(error < -46.0, "{frequency} Hz: {error} dB");
        }
    }

    #[test]
    fn what_16_khz_can_not_carry_is_kept_out() {
        for frequency in [8800.0, 10_000.0, 12_000.0, 15_000.0, 16_000.0, 20_000.0] {
            let (_, out) = there_and_back(frequency);
            let left = decibels(largest(&out[500..]));
            assert!(left < -58.0, "{frequency} Hz: {left} dB");
        }
    }

    #[test]
    fn a_constant_stays_one() {
        let (mut down, mut up) = (Down::new(), Up::new());
        for _ in 0..3 * TAPS {
            down.push(0.5);
            up.push(0.5);
        }
        assert!((down.sample() - 0.5).abs() < 1e-6);
        for phase in 0..FACTOR {
            assert!((up.sample(phase) - 0.5).abs() < 1e-6, "phase {phase}");
        }
    }
}
