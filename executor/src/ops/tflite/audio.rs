//! Spectrograms and their cepstral coefficients, which networks of speech begin with.

use nnburst_kernels::kernels::fft_f64::{Complex, RealFft};
use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{ElementKind, OperatorCall, refused};
use super::fourier::MOST_POINTS;
use super::math::{cut, f64_of, narrow};
use crate::lowering::{Label, Lowered};
use crate::ops::support::plain;

/// A count as a double; those here are far below 2^53.
fn real(count: usize) -> f64 {
    f64_of(i64::try_from(count).unwrap_or(i64::MAX))
}

/// AUDIO_SPECTROGRAM of samples `[time, channels]`: the squared sizes of frequencies, or the sizes,
/// of windows that a cosine fades in and out, `[channels, windows, frequencies]`.
///
/// The interpreter goes on with what one channel leaves over at the beginning of the next, and
/// fails where that changes how many windows a channel has.
pub(super) fn spectrogram(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let &[samples, channels] = &input.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 2", input.shape)).into());
    };
    if input.kind != ElementKind::F32 {
        return Err(refused(0, input.kind).into());
    }
    call.result_is(0, &[ElementKind::F32])?;
    let (window, stride) = (call.count(0, 2)?, call.count(1, 1)?);
    let is_squared = call.flag(2)?;
    if i64::try_from(window).map_or(true, |window| window > MOST_POINTS) {
        return Err(OpError::rule(format!("a window of {window} samples")).into());
    }
    let points = window.next_power_of_two();
    let rows = samples.checked_sub(window).map_or(0, |rest| 1 + rest / stride);
    if !fits(samples, channels, window, stride, rows) {
        let what = format!("{channels} channels of {samples} samples have no {rows} windows each");
        return Err(OpError::rule(what).into());
    }
    let width = points / 2 + 1;
    let shape = call.set(0, &[channels, rows, width])?;
    call.claim(8 * window + 16 * points)?;
    let turn = 2.0 * std::f64::consts::PI;
    let fade: Vec<f64> =
        (0..window).map(|at| 0.5 - 0.5 * (turn * real(at) / real(window)).cos()).collect();
    let fft = RealFft::new(call.isa(), points)
        .ok_or_else(|| OpError::rule(format!("a window of {window} samples")))?;
    let work = u64::try_from(shape.elements().saturating_mul(20)).unwrap_or(u64::MAX);
    let label = Label { form: fft.isa(), ..plain("tflite_audio_spectrogram", &shape, work) };
    let room = 8 * RealFft::scratch(points, channels * rows);
    call.emit_with_scratch(label, room, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (from, to) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        let fill = |row: usize, line: &mut [f64]| {
            let (mut channel, mut time) = (row * stride / samples, row * stride % samples);
            let (faded, rest) = line.split_at_mut(window);
            rest.fill(0.0);
            for (place, fade) in faded.iter_mut().zip(&fade) {
                *place = f64::from(from.get(time * channels + channel)) * fade;
                time += 1;
                if time == samples {
                    (channel, time) = (channel + 1, 0);
                }
            }
        };
        let give = |row: usize, at: usize, [real, imaginary]: Complex| {
            let power = narrow(real * real + imaginary * imaginary);
            to.set(row * width + at, if is_squared { power } else { power.sqrt() });
        };
        Ok(fft.compute(channels * rows, io.scratch_slice::<f64>(), fill, give)?)
    });
    Ok(())
}

/// Returns whether each channel has so many windows where windows go on from one to the next.
fn fits(samples: usize, channels: usize, window: usize, stride: usize, rows: usize) -> bool {
    let wide = |count: usize| i128::try_from(count).unwrap_or(i128::MAX);
    let [samples, channels, window, stride, rows] =
        [samples, channels, window, stride, rows].map(wide);
    if rows == 0 {
        return channels * samples < window;
    }
    // What lies between the end of the last window that a channel should have and its own end.
    let rest = |channels: i128| channels * (samples - rows * stride) + stride - window;
    channels == 0 || (0..stride).contains(&rest(channels))
}

/// The most bands of a filter bank, and the most cosines of a transform.
const MOST_BANDS: usize = 1 << 16;
const MOST_COSINES: usize = 1 << 22;

/// A frequency as it is heard: in mels.
fn mels(frequency: f64) -> f64 {
    1127.0 * (frequency / 700.0).ln_1p()
}

/// Bands that overlap by halves: each bin of a spectrum is shared between two.
#[derive(Debug)]
struct FilterBank {
    /// The first bin that counts, and the last.
    ends: (usize, usize),
    /// For each bin the band on whose falling side it is, none for the first half, and its share.
    bins: Vec<(Option<usize>, f64)>,
}

impl FilterBank {
    fn new(bins: usize, rate: f64, bands: usize, limits: (f64, f64)) -> Self {
        let (low, high) = (mels(limits.0), mels(limits.1));
        let spacing = (high - low) / real(bands + 1);
        let centers: Vec<f64> = (0..=bands).map(|at| low + spacing * real(at + 1)).collect();
        let step = 0.5 * rate / real(bins - 1);
        let place = |x: f64| usize::try_from(cut(x)).unwrap_or(0);
        let ends = (place(1.5 + limits.0 / step), place(limits.1 / step));
        let mut band = 0;
        let bins = (0..bins).map(|bin| {
            if !(ends.0..=ends.1).contains(&bin) {
                return (None, 0.0);
            }
            let heard = mels(real(bin) * step);
            while band < bands && centers[band] < heard {
                band += 1;
            }
            let before = band.checked_sub(1);
            let start = before.map_or(low, |before| centers[before]);
            (before, (centers[band] - heard) / (centers[band] - start))
        });
        Self { ends, bins: bins.collect() }
    }

    /// Sums the sizes of a spectrum's frequencies in each band.
    fn sum(&self, powers: impl Fn(usize) -> f32, bands: &mut [f64]) {
        bands.fill(0.0);
        for bin in self.ends.0..=self.ends.1 {
            let size = f64::from(powers(bin)).sqrt();
            let (before, share) = self.bins[bin];
            if let Some(before) = before {
                bands[before] += size * share;
            }
            if let Some(next) = bands.get_mut(before.map_or(0, |before| before + 1)) {
                *next += size - size * share;
            }
        }
    }
}

/// MFCC of squared spectrograms `[channels, windows, frequencies]`, and the rate of their samples:
/// cosines of the logarithms of what bands hold.
pub(super) fn mfcc(call: &mut OperatorCall<'_, '_>) -> Lowered {
    const FLOOR: f64 = 1e-12;
    let input = call.arg(0)?;
    let &[channels, rows, bins] = &input.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 3", input.shape)).into());
    };
    if input.kind != ElementKind::F32 {
        return Err(refused(0, input.kind).into());
    }
    call.one_element(1, ElementKind::I32)?;
    call.result_is(0, &[ElementKind::F32])?;
    let rate = call.one_int(1)?;
    let limits = (f64::from(call.real(1)?), f64::from(call.real(0)?));
    let (bands, coefficients) = (call.count(2, 1)?, call.count(3, 1)?);
    let is_band = limits.0 >= 0.0 && limits.1 > limits.0 && limits.1.is_finite();
    if rate <= 0 || bins < 2 || !is_band {
        let what = format!("{bins} frequencies at {rate} samples a second, {limits:?}");
        return Err(OpError::rule(what).into());
    }
    let cosines = bands.saturating_mul(coefficients);
    if coefficients > bands || bands > MOST_BANDS || cosines > MOST_COSINES {
        return Err(OpError::rule(format!("{coefficients} of {bands} bands")).into());
    }
    let shape = call.set(0, &[channels, rows, coefficients])?;
    call.claim(24 * bins + 8 * bands + 8 * cosines)?;
    let bank = FilterBank::new(bins, f64_of(rate), bands, limits);
    let (norm, angle) = ((2.0 / real(bands)).sqrt(), std::f64::consts::PI / real(bands));
    let cosine = |at: usize| {
        let (row, column) = (real(at / bands), real(at % bands));
        norm * (row * angle * (column + 0.5)).cos()
    };
    let cosines: Vec<f64> = (0..cosines).map(cosine).collect();
    let work = u64::try_from(shape.elements().saturating_mul(bands)).unwrap_or(u64::MAX);
    let label = plain("tflite_mfcc", &shape, work);
    call.emit_with_scratch(label, 8 * bands, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (from, to) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        if bank.ends.1 >= bins {
            to.fill(std::iter::repeat(0.0)); // as there: the bank does not reach into the spectrum
            return Ok(());
        }
        let held = &mut io.scratch_slice::<f64>()[..bands];
        for row in poll::each(0..channels * rows, 6 * bins + bands * (coefficients + 20)) {
            bank.sum(|bin| from.get(row * bins + bin), held);
            for band in &mut *held {
                *band = if *band < FLOOR { FLOOR } else { *band }.ln();
            }
            for (at, cosines) in cosines.chunks_exact(bands).enumerate() {
                let sum: f64 = cosines.iter().zip(&*held).map(|(a, b)| a * b).sum();
                to.set(row * coefficients + at, narrow(sum));
            }
        }
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_go_on_where_the_last_one_ended() {
        assert!(fits(640, 1, 480, 160, 2));
        // Two windows end within the first channel, four within the second.
        assert!(!fits(640, 2, 480, 160, 2));
        // Windows that do not overlap and leave nothing over.
        assert!(fits(640, 7, 160, 160, 4));
        assert!(fits(100, 1, 160, 160, 0) && !fits(100, 2, 160, 160, 0));
    }

    #[test]
    fn bands_share_each_bin() {
        let bank = FilterBank::new(257, 16000.0, 40, (20.0, 4000.0));
        assert_eq!(bank.ends, (2, 128));
        let mut bands = [0.0; 40];
        bank.sum(|_| 4.0, &mut bands);
        // All that lies between the first center and the last is in one of two bands.
        let inner = bank.bins.iter().filter(|(before, _)| before.is_some_and(|it| it < 39)).count();
        assert!(bands.iter().sum::<f64>() > 2.0 * real(inner));
        assert!(bands.iter().all(|&band| band > 0.5));
    }
}
