//! Convolutions in plain code, for those without packed kernels: every output is a sum over taps.

use std::ops::Range;

use nnburst_hal::FusedActivation;
use nnburst_kernels::tensor::quant::{clamp_real, real_activation_range};
use nnburst_kernels::tensor::{OpError, Real, poll};

use super::conv::{Requantise, bytes};
use crate::lowering::{Io, Label, Lowered, OpBuilder};

/// The products that each output of a convolution sums.
pub(super) trait Taps: Copy + Send + Sync + 'static {
    /// Along which dimension of the filter the output channels lie, and scales where each has its
    /// own.
    const CHANNEL_DIM: usize = 0;

    /// Returns the number of rows of the output, those of all images.
    fn lines(&self) -> usize;

    /// Calls `each(output position, output channel, taps)` for every output of some lines, a tap
    /// being positions in input and filter.
    fn each(
        &self,
        lines: Range<usize>,
        each: impl FnMut(usize, usize, &mut dyn Iterator<Item = (usize, usize)>),
    );

    /// Returns the step's label.
    fn label(&self) -> Result<Label, OpError>;

    /// Returns the epilogue of each accumulator.
    fn activation(&self) -> FusedActivation;
}

/// Adds the step for real numbers: inputs 0 to 2 are activations, filter and bias.
pub(super) fn real<T: Real>(op: &mut OpBuilder<'_>, conv: impl Taps) -> Lowered {
    let (low, high) = real_activation_range(conv.activation());
    op.emit_bands(conv.label()?, 0, conv.lines(), move |io: Io<'_>, lines| {
        let (input, filter, bias) = (io.input::<T>(0), io.input::<T>(1), io.input::<T>(2));
        let output = io.output::<T>(0);
        conv.each(lines, |at, o, taps| {
            let products = poll::each(taps, 8)
                .map(|(pixel, weight)| input.get(pixel).to_f32() * filter.get(weight).to_f32());
            let sum = products.fold(bias.get(o).to_f32(), |sum, product| sum + product);
            output.set(at, T::from_f32(clamp_real(sum, low, high)));
        });
        Ok(())
    });
    Ok(())
}

/// Adds the step for quantised ones.
pub(super) fn byte<C: Taps>(op: &mut OpBuilder<'_>, conv: C) -> Lowered {
    let requantise = Requantise::new(op, C::CHANNEL_DIM, conv.activation())?;
    let (of_input, of_filter) = (bytes(&op.input(0)?), bytes(&op.input(1)?));
    op.emit_bands(conv.label()?, 0, conv.lines(), move |io: Io<'_>, lines| {
        let (input, filter, bias) = (io.input::<u8>(0), io.input::<u8>(1), io.input::<i32>(2));
        let output = io.output::<u8>(0);
        conv.each(lines, |at, o, taps| {
            let sum = poll::each(taps, 8).fold(bias.get(o), |sum, (pixel, weight)| {
                let x = of_input.from_zero(input.get(pixel));
                sum.wrapping_add(x * of_filter.from_zero(filter.get(weight)))
            });
            output.set(at, requantise.apply(sum, o));
        });
        Ok(())
    });
    Ok(())
}
