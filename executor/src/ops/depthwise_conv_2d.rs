//! DEPTHWISE_CONV_2D: every channel with filters of its own.

use std::sync::Arc;

use nnburst_hal::{FusedActivation, OperandType};

use super::Op;
use super::conv::{
    self, Requantise, Types, bytes, check_bias, constants, filter_extents, slide, types,
};
use super::support::{Axis, Image, Window};
use crate::element::{Quantised, Real};
use crate::error::OpError;
use crate::kernels::patches::Patches;
use crate::kernels::{depthwise_f32, depthwise_i8};
use crate::plan::{Label, Lowered, OpBuilder};
use crate::quant::{clamp_real, real_activation_range};

pub(super) static DEPTHWISE_CONV_2D: Op = Op { lower };

/// A depthwise convolution with its operands read.
#[derive(Clone, Copy, Debug)]
struct Depthwise {
    input: Image,
    output: Image,
    vertical: Axis,
    horizontal: Axis,
    /// Output channels per input channel.
    multiplier: usize,
    activation: FusedActivation,
}

/// Explicit paddings: 11, 12 or 14 inputs; implicit: 8, 9 or 11. With 11 the type of input 8 tells: BOOL is
/// the layout flag of the implicit form. Output channel `c * m + r` reads input channel `c`.
///
/// Source: NNAPI `DEPTHWISE_CONV_2D`, since HAL 1.0; layout flag and dilation since 1.2; signed since 1.3.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, filter, bias) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let explicit = match op.input_count() {
        8 | 9 => false,
        11 => op.input_kind(8)? != OperandType::Bool,
        12 | 14 => true,
        count => return Err(OpError::rule(format!("{count} inputs")).into()),
    };
    let (window, next) = Window::read(op, 3, explicit)?;
    let (multiplier, activation) = (op.extent(next, 1)?, op.activation(next + 1)?);
    let nchw = op.nchw(next + 2)?;
    let window = window.dilated(op, next + 3)?;
    let image = Image::of(0, &input.shape, nchw)?;
    let outputs = image.channels.checked_mul(multiplier);
    let wanted = format_args!("{} channels times {multiplier}", image.channels);
    let [_, filter_h, filter_w, channels_out] =
        filter_extents(&filter, wanted, |[one, .., c]| one == 1 && Some(c) == outputs)?;
    check_bias(&bias, channels_out)?;
    let (vertical, horizontal, output) =
        slide(op, &image, &window, (filter_h, filter_w), channels_out)?;
    let conv = Depthwise { input: image, output, vertical, horizontal, multiplier, activation };
    match types(&input, &filter, &bias, &op.output(0)?)? {
        Types::Float32 => float32(op, conv),
        Types::Float16 => real::<half::f16>(op, conv),
        Types::Unsigned => byte::<u8, u8>(op, conv),
        Types::UnsignedPerChannel => byte::<u8, i8>(op, conv),
        Types::Signed => byte::<i8, i8>(op, conv),
    }
}

impl Depthwise {
    /// Calls `each(output position, output channel, taps)` for every output; a tap is the position of an
    /// input element and of its weight.
    fn each(&self, mut each: impl FnMut(usize, usize, &mut dyn Iterator<Item = (usize, usize)>)) {
        let Self { input, output, vertical, horizontal, multiplier, .. } = self;
        for batch in 0..output.batches {
            for y in 0..output.height {
                for x in 0..output.width {
                    for o in 0..output.channels {
                        let mut taps = vertical.taps(y).flat_map(|(i, row)| {
                            horizontal.taps(x).map(move |(j, column)| {
                                let weight = (i * horizontal.filter + j) * output.channels + o;
                                (input.at(batch, row, column, o / multiplier), weight)
                            })
                        });
                        each(output.at(batch, y, x, o), o, &mut taps);
                    }
                }
            }
        }
    }

    /// The windows, where every channel has one filter: what the kernels compute.
    fn patches(&self) -> Option<Patches> {
        let patches = conv::patches(&self.input, &self.output, self.vertical, self.horizontal);
        patches.filter(|_| self.multiplier == 1)
    }

    fn label(&self, kernel: &'static str) -> Result<Label, OpError> {
        let filter = (self.vertical.filter, self.horizontal.filter);
        conv::label(kernel, (&self.input, &self.output), filter, filter.0 * filter.1)
    }
}

fn float32(op: &mut OpBuilder<'_>, conv: Depthwise) -> Lowered {
    let packed = constants(op).zip(conv.patches()).and_then(|((filter, bias), patches)| {
        let range = real_activation_range(conv.activation);
        depthwise_f32::Depthwise::new(op.isa(), patches, filter.typed(), bias.typed(), range)
    });
    let Some(packed) = packed else { return real::<f32>(op, conv) };
    op.absorb(1);
    let label = Label { form: packed.isa(), ..conv.label("depthwise_f32")? };
    let packed = Arc::new(packed);
    let lines: Arc<depthwise_f32::Depthwise> = Arc::clone(&packed);
    op.emit_bands(label, 0, packed.lines(), move |io, lines| {
        packed.compute(io.input(0), io.output(0), lines)
    });
    op.join_lines(lines);
    Ok(())
}

fn real<T: Real>(op: &mut OpBuilder<'_>, conv: Depthwise) -> Lowered {
    let (low, high) = real_activation_range(conv.activation);
    op.emit(conv.label("depthwise_conv_2d_real")?, move |io| {
        let (input, filter, bias) = (io.input::<T>(0), io.input::<T>(1), io.input::<T>(2));
        let output = io.output::<T>(0);
        conv.each(|at, o, taps| {
            let product = |(x, w)| input.get(x).to_f32() * filter.get(w).to_f32();
            let sum = taps.map(product).fold(bias.get(o).to_f32(), |sum, product| sum + product);
            output.set(at, T::from_f32(clamp_real(sum, low, high)));
        });
        Ok(())
    });
    Ok(())
}

fn byte<T: Quantised, F: Quantised>(op: &mut OpBuilder<'_>, conv: Depthwise) -> Lowered {
    let requantise = Requantise::new(op, 3, conv.activation)?;
    let (zp_in, zp_filter) = (op.input(0)?.zero_point, op.input(1)?.zero_point);
    let packed = constants(op).zip(conv.patches()).and_then(|((filter, bias), patches)| {
        let (input, weights) = (op.input(0).ok()?, op.input(1).ok()?);
        let weights = (filter.as_slice(), bytes::<F>(&weights));
        let scaling = requantise.scaling(conv.output.channels);
        let bias = bias.typed();
        depthwise_i8::Depthwise::new(op.isa(), patches, bytes::<T>(&input), weights, bias, scaling)
    });
    if let Some(packed) = packed {
        op.absorb(1);
        let label = Label { form: packed.isa(), ..conv.label("depthwise_i8")? };
        let bands = packed.bands();
        op.emit_bands(label, packed.scratch_bytes(), bands, move |mut io, bands| {
            packed.compute(io.input(0), io.output(0), io.scratch_slice(), bands)
        });
        return Ok(());
    }
    op.emit(conv.label("depthwise_conv_2d_byte")?, move |io| {
        let (input, filter, bias) = (io.input::<T>(0), io.input::<F>(1), io.input::<i32>(2));
        let output = io.output::<T>(0);
        conv.each(|at, o, taps| {
            let product =
                |(x, w)| (input.get(x).to_i32() - zp_in) * (filter.get(w).to_i32() - zp_filter);
            let sum = taps.map(product).fold(bias.get(o), i32::wrapping_add);
            output.set(at, requantise.apply(sum, o));
        });
        Ok(())
    });
    Ok(())
}
