//! Between samples and frequencies.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

use crate::{BINS, DenoiseError, WINDOW};

/// The transforms of a window, in double precision, as the models were trained.
pub(crate) struct Transform {
    forward: Arc<dyn RealToComplex<f64>>,
    inverse: Arc<dyn ComplexToReal<f64>>,
    samples: Vec<f64>,
    spectrum: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl Transform {
    pub(crate) fn new() -> Self {
        let mut planner = RealFftPlanner::new();
        let (forward, inverse) =
            (planner.plan_fft_forward(WINDOW), planner.plan_fft_inverse(WINDOW));
        let scratch = forward.get_scratch_len().max(inverse.get_scratch_len());
        Self {
            samples: forward.make_input_vec(),
            spectrum: forward.make_output_vec(),
            scratch: vec![Complex::default(); scratch],
            forward,
            inverse,
        }
    }

    /// Keeps the spectrum and gives its magnitudes.
    pub(crate) fn forward(
        &mut self,
        window: &[f32; WINDOW],
        magnitudes: &mut [f32; BINS],
    ) -> Result<(), DenoiseError> {
        for (to, &from) in self.samples.iter_mut().zip(window) {
            *to = f64::from(from);
        }
        let Self { forward, samples, spectrum, scratch, .. } = self;
        forward.process_with_scratch(samples, spectrum, scratch)?;
        for (to, from) in magnitudes.iter_mut().zip(spectrum) {
            *to = narrow(from.norm());
        }
        Ok(())
    }

    /// The kept spectrum under a mask, as samples.
    pub(crate) fn inverse(
        &mut self,
        mask: &[f32; BINS],
        samples: &mut [f32; WINDOW],
    ) -> Result<(), DenoiseError> {
        for (bin, &share) in self.spectrum.iter_mut().zip(mask) {
            *bin *= f64::from(share) / WINDOW as f64;
        }
        let Self { inverse, samples: wide, spectrum, scratch, .. } = self;
        inverse.process_with_scratch(spectrum, wide, scratch)?;
        for (to, &from) in samples.iter_mut().zip(wide.iter()) {
            *to = narrow(from);
        }
        Ok(())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the networks compute in single precision")]
fn narrow(x: f64) -> f32 {
    x as f32
}
