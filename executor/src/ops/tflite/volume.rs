//! Convolutions of volumes: FLOAT32 alone, as in TFLite.
//!
//! Sums have the order of TFLite's reference kernels: tap by tap from the front of a filter on,
//! channel by channel within a tap, each product rounded before it is added.

use nnburst_kernels::kernels::gemm_f32::Gemm;
use nnburst_kernels::kernels::lines::Convolution as _;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::{In, OpError, Out, check_lengths, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall, refused, sizes};
use super::conv::padding;
use crate::lowering::{Label, Lowered};
use crate::ops::support::{Axis, plain};

/// The windows of a convolution over the depth, the height and the width of volumes.
#[derive(Clone, Copy, Debug)]
struct Windows {
    axes: [Axis; 3],
    channels: usize,
}

impl Windows {
    /// Reads padding, strides and dilations: those of the width come before those of the height.
    fn read(
        call: &OperatorCall<'_, '_>,
        volume: [usize; 3],
        filter: [usize; 3],
        channels: usize,
    ) -> Lowered<Self> {
        if volume.contains(&0) || filter.contains(&0) || channels == 0 {
            let what = format!("filters of {filter:?} on {channels} channels of {volume:?}");
            return Err(OpError::rule(what).into());
        }
        let padding = padding(call)?;
        let axis = |at: usize, stride: usize, dilation: usize| -> Lowered<Axis> {
            let (stride, dilation) = (call.count(stride, 1)?, call.count(dilation, 1)?);
            Ok(padding.axis(volume[at], filter[at], stride, dilation)?)
        };
        Ok(Self { axes: [axis(0, 1, 5)?, axis(1, 3, 7)?, axis(2, 2, 6)?], channels })
    }

    /// Extents of what the windows are over, and how many there are of them.
    fn outer(&self) -> [usize; 3] {
        self.axes.map(|axis| axis.output)
    }

    /// The first element of a place in the volume that the windows are over.
    fn at(&self, batch: usize, z: usize, y: usize, x: usize) -> usize {
        let [depth, height, width] = self.axes.map(|axis| axis.input);
        (((batch * depth + z) * height + y) * width + x) * self.channels
    }

    fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.filter).product()
    }

    /// Writes the values under the window at `[batch, z, y, x]` one behind the other, zeros where
    /// it leaves the volume.
    fn gather(&self, input: In<'_, f32>, [batch, z, y, x]: [usize; 4], to: &mut [f32]) {
        let ([deep, vertical, horizontal], channels) = (self.axes, self.channels);
        let (planes, lines, columns) =
            (deep.tap_range(z), vertical.tap_range(y), horizontal.tap_range(x));
        let column = x * horizontal.stride + columns.start * horizontal.dilation;
        let first = column.saturating_sub(horizontal.head);
        let taps = (0..deep.filter).flat_map(|k| (0..vertical.filter).map(move |i| (k, i)));
        for ((k, i), to) in taps.zip(to.chunks_exact_mut(horizontal.filter * channels)) {
            if !(planes.contains(&k) && lines.contains(&i)) || columns.is_empty() {
                to.fill(0.0);
                continue;
            }
            let in_z = z * deep.stride + k * deep.dilation - deep.head;
            let in_y = y * vertical.stride + i * vertical.dilation - vertical.head;
            let from = self.at(batch, in_z, in_y, first);
            to[..columns.start * channels].fill(0.0);
            to[columns.end * channels..].fill(0.0);
            let within = &mut to[columns.start * channels..columns.end * channels];
            if horizontal.dilation == 1 {
                input.slice(from..from + within.len()).copy_to(within);
                continue;
            }
            for (at, to) in within.chunks_exact_mut(channels).enumerate() {
                let from = from + at * horizontal.dilation * channels;
                input.slice(from..from + channels).copy_to(to);
            }
        }
    }

    /// The number of a filter's tap.
    fn tap(&self, z: usize, y: usize, x: usize) -> usize {
        (z * self.axes[1].filter + y) * self.axes[2].filter + x
    }
}

/// The extents of a volume or of a filter: the last two are its channels.
fn extents(index: usize, arg: &Arg) -> Result<[usize; 5], OpError> {
    if arg.kind != ElementKind::F32 {
        return Err(refused(index, arg.kind));
    }
    let extents = arg.shape[..].try_into();
    extents.map_err(|_| OpError::input(index, format!("is of {:?}, not of rank 5", arg.shape)))
}

/// Checks the bias, if there is one.
fn has_bias(call: &OperatorCall<'_, '_>, index: usize, outputs: usize) -> Lowered<bool> {
    if !call.has(index) {
        return Ok(false);
    }
    let bias = call.arg(index)?;
    if bias.kind != ElementKind::F32 || bias.shape.elements() != outputs {
        let what = format!("is {:?} of {:?} for {outputs} channels", bias.kind, bias.shape);
        return Err(OpError::input(index, what).into());
    }
    Ok(true)
}

/// CONV_3D: volumes `[batches, depth, height, width, inputs]`, filters
/// `[depth, height, width, inputs, outputs]`.
pub(super) fn conv_3d(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let [batches, depth, height, width, channels] = extents(0, &call.arg(0)?)?;
    let [filter_d, filter_h, filter_w, own, outputs] = extents(1, &call.arg(1)?)?;
    if own != channels || outputs == 0 {
        let what = format!("filters of {own} by {outputs} for {channels} channels");
        return Err(OpError::input(1, what).into());
    }
    call.result_is(0, &[ElementKind::F32])?;
    let filter = [filter_d, filter_h, filter_w];
    let windows = Windows::read(call, [depth, height, width], filter, channels)?;
    let activation = call.activation(4)?;
    let has_bias = has_bias(call, 2, outputs)?;
    let [out_d, out_h, out_w] = windows.outer();
    let shape = call.set(0, &[batches, out_d, out_h, out_w, outputs])?;
    let products = windows.taps() * channels;
    let work = 2 * u64::try_from(shape.elements().saturating_mul(products)).unwrap_or(u64::MAX);
    let (label, isa) = (plain("tflite_conv_3d", &shape, work), call.isa());
    if let Some(gemm) = packed(call, products, outputs, has_bias, activation) {
        call.absorb(1);
        let label = Label { form: gemm.isa(), ..label };
        emit_products(call, label, windows, batches, gemm);
        return Ok(());
    }
    call.emit_bands(label, 4 * outputs, batches * out_d * out_h, move |mut io, band| {
        let fixed = io.inputs_and_outputs();
        let (input, filters) = (fixed.input::<f32>(0), fixed.input::<f32>(1));
        let (bias, output) = (fixed.input::<f32>(2), fixed.output::<f32>(0));
        let sums = &mut io.scratch_slice::<f32>()[..outputs];
        for row in band {
            let (y, plane) = (row % out_h, row / out_h);
            let (z, batch) = (plane % out_d, plane / out_d);
            for x in poll::each(0..out_w, products * outputs / 8 + 8) {
                let place = [batch, z, y, x];
                isa.run(WindowSums { windows: &windows, input, place, filters, sums });
                let first = (row * out_w + x) * outputs;
                for (channel, &sum) in sums.iter().enumerate() {
                    // A missing bias is a zero that is added, too.
                    let bias = if has_bias { bias.get(channel) } else { 0.0 };
                    output.set(first + channel, activation.apply(sum + bias));
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// The product with constant filters, of as many windows at a time as stay in L2; `None` where
/// there is none.
fn packed(
    call: &OperatorCall<'_, '_>,
    products: usize,
    outputs: usize,
    has_bias: bool,
    activation: Activation,
) -> Option<Gemm> {
    const BYTES: usize = 128 << 10;
    if !activation.is_range() {
        return None;
    }
    let filters = call.constant(1)?;
    let filters = filters.typed::<f32>();
    let bias = match has_bias {
        true => call.constant(2)?.typed::<f32>().to_vec(),
        // A missing bias is a zero that is added, too.
        false => vec![0.0; outputs],
    };
    // A row for each output channel.
    let mut weights = vec![0.0; filters.len()];
    for (channel, row) in poll::each(weights.chunks_exact_mut(products).enumerate(), products) {
        let own = filters.iter().skip(channel).step_by(outputs);
        row.iter_mut().zip(own).for_each(|(to, &weight)| *to = weight);
    }
    let rows = (BYTES / 4 / products).clamp(8, 256);
    let column = Patches { in_width: 1, out_width: 1, ..Patches::matrix(1, products) };
    let column = Patches { in_height: rows, out_height: rows, ..column };
    Gemm::ordered(call.isa(), column, &weights, &bias, activation.real_range())
}

/// Adds the step that gathers windows and multiplies them.
fn emit_products(
    call: &mut OperatorCall<'_, '_>,
    label: Label,
    windows: Windows,
    batches: usize,
    gemm: Gemm,
) {
    let [depth, height, width] = windows.outer();
    let (rows, outputs) = (gemm.patches().lines(), gemm.channels());
    let products = gemm.patches().depth();
    let scratch = 4 * rows * (products + outputs) + gemm.scratch_bytes();
    call.emit_bands(label, scratch, batches * depth * height, move |mut io, band| {
        let fixed = io.inputs_and_outputs();
        let (input, output) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        let scratch = io.scratch_slice::<f32>();
        check_lengths(scratch.len(), rows * (products + outputs))?;
        let (gathered, rest) = scratch.split_at_mut(rows * products);
        let (results, own) = rest.split_at_mut(rows * outputs);
        let all = band.start * width..band.end * width;
        for first in all.clone().step_by(rows) {
            let some = first..all.end.min(first + rows);
            for (place, to) in some.clone().zip(gathered.chunks_exact_mut(products)) {
                poll::work(products / 4 + 8)?;
                let (line, x) = (place / width, place % width);
                let (plane, y) = (line / height, line % height);
                windows.gather(input, [plane / depth, plane % depth, y, x], to);
            }
            gemm.compute(In::of(gathered), Out::of(results), 0..some.len(), own)?;
            let results = &results[..some.len() * outputs];
            output.slice(some.start * outputs..some.end * outputs).copy_from(In::of(results));
        }
        Ok(())
    });
}

/// The sums of all output channels at one place.
struct WindowSums<'a> {
    windows: &'a Windows,
    input: In<'a, f32>,
    /// Batch and place of the window.
    place: [usize; 4],
    filters: In<'a, f32>,
    sums: &'a mut [f32],
}

impl Loop for WindowSums<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { windows, input, place: [batch, z, y, x], filters, sums } = self;
        let [deep, vertical, horizontal] = windows.axes;
        let (channels, outputs) = (windows.channels, sums.len());
        sums.fill(0.0);
        for (tap_z, in_z) in deep.taps(z) {
            for (tap_y, in_y) in vertical.taps(y) {
                for (tap_x, in_x) in horizontal.taps(x) {
                    let from = windows.at(batch, in_z, in_y, in_x);
                    let first = windows.tap(tap_z, tap_y, tap_x) * channels;
                    for (at, value) in input.slice(from..from + channels).iter().enumerate() {
                        let row = (first + at) * outputs;
                        let weights = filters.slice(row..row + outputs);
                        for (sum, weight) in sums.iter_mut().zip(weights.iter()) {
                            *sum += value * weight;
                        }
                    }
                }
            }
        }
    }
}

/// CONV_3D_TRANSPOSE: the result's shape comes first, then filters
/// `[depth, height, width, outputs, inputs]`, then the volumes.
pub(super) fn conv_3d_transpose(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let [filter_d, filter_h, filter_w, outputs, channels] = extents(1, &call.arg(1)?)?;
    let input = extents(2, &call.arg(2)?)?;
    let wanted = sizes(&call.ints(0)?)?;
    let &[batches, depth, height, width, own] = &wanted[..] else {
        return Err(OpError::input(0, format!("is {wanted:?}, no shape of rank 5")).into());
    };
    call.result_is(0, &[ElementKind::F32])?;
    // The windows of the convolution that this one undoes: from the result to the input.
    let filter = [filter_d, filter_h, filter_w];
    let windows = Windows::read(call, [depth, height, width], filter, outputs)?;
    let [in_d, in_h, in_w] = windows.outer();
    if own != outputs || input != [batches, in_d, in_h, in_w, channels] || channels == 0 {
        return Err(OpError::rule(format!("{input:?} does not become {wanted:?}")).into());
    }
    let activation = call.activation(4)?;
    let has_bias = has_bias(call, 3, outputs)?;
    let shape = call.set(0, &wanted)?;
    let places = batches * in_d * in_h * in_w;
    let products = windows.taps() * channels * outputs;
    let work = 2 * u64::try_from(places.saturating_mul(products)).unwrap_or(u64::MAX);
    let label = plain("tflite_conv_3d_transpose", &shape, work);
    let elements = shape.elements();
    call.emit_with_scratch(label, 4 * elements, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (filters, input) = (fixed.input::<f32>(1), fixed.input::<f32>(2));
        let (bias, output) = (fixed.input::<f32>(3), fixed.output::<f32>(0));
        let sums = &mut io.scratch_slice::<f32>()[..elements];
        sums.fill(0.0);
        for place in poll::each(0..places, products / 4 + 8) {
            let (x, line) = (place % in_w, place / in_w);
            let (y, plane) = (line % in_h, line / in_h);
            let (z, batch) = (plane % in_d, plane / in_d);
            let values = input.slice(place * channels..(place + 1) * channels);
            let window = [batch, z, y, x];
            Spread { windows: &windows, window, values, filters, sums: &mut *sums }.run();
        }
        for (at, &sum) in poll::each(sums.iter().enumerate(), 4) {
            let sum = if has_bias { sum + bias.get(at % outputs) } else { sum };
            output.set(at, activation.apply(sum));
        }
        Ok(())
    });
    Ok(())
}

/// The products of one input place, added to the sums of the window that it stands for.
struct Spread<'a> {
    windows: &'a Windows,
    window: [usize; 4],
    /// Of the place, channel by channel.
    values: In<'a, f32>,
    filters: In<'a, f32>,
    sums: &'a mut [f32],
}

impl Spread<'_> {
    fn run(self) {
        let Self { windows, window: [batch, z, y, x], values, filters, sums } = self;
        let [deep, vertical, horizontal] = windows.axes;
        let (outputs, channels) = (windows.channels, values.len());
        for (tap_z, out_z) in deep.taps(z) {
            for (tap_y, out_y) in vertical.taps(y) {
                for (tap_x, out_x) in horizontal.taps(x) {
                    let to = windows.at(batch, out_z, out_y, out_x);
                    let first = windows.tap(tap_z, tap_y, tap_x) * outputs;
                    for (at, sum) in sums[to..to + outputs].iter_mut().enumerate() {
                        let row = (first + at) * channels;
                        let weights = filters.slice(row..row + channels);
                        for (value, weight) in values.iter().zip(weights.iter()) {
                            *sum += value * weight;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_gathered_with_zeros_where_they_leave_the_volume() {
        let axis = |input, filter, stride, dilation, head| {
            let reach = (filter - 1) * dilation + 1;
            let output = (input + 2 * head - reach) / stride + 1;
            Axis { input, output, filter, stride, dilation, head }
        };
        for axes in [
            [axis(4, 3, 1, 1, 1), axis(5, 2, 2, 1, 0), axis(6, 3, 1, 1, 1)],
            [axis(5, 2, 1, 3, 2), axis(4, 3, 1, 1, 2), axis(7, 3, 2, 2, 3)],
        ] {
            let windows = Windows { axes, channels: 2 };
            let [depth, height, width] = axes.map(|axis| axis.input);
            let volume: Vec<f32> =
                (1u16..).map(f32::from).take(2 * depth * height * width * 2).collect();
            let [planes, lines, columns] = windows.outer();
            for at in 0..2 * planes * lines * columns {
                let (x, y) = (at % columns, at / columns % lines);
                let (z, batch) = (at / columns / lines % planes, at / columns / lines / planes);
                let mut got = vec![-1.0; windows.taps() * 2];
                windows.gather(In::of(&volume), [batch, z, y, x], &mut got);
                for (place, &got) in got.iter().enumerate() {
                    let (channel, tap) = (place % 2, place / 2);
                    let taps = [
                        tap / axes[2].filter / axes[1].filter,
                        tap / axes[2].filter % axes[1].filter,
                        tap % axes[2].filter,
                    ];
                    let pixel = [0, 1, 2].into_iter().map(|of| {
                        let (at, tap, axis) = ([z, y, x][of], taps[of], axes[of]);
                        let place =
                            (at * axis.stride + tap * axis.dilation).checked_sub(axis.head)?;
                        (place < axis.input).then_some(place)
                    });
                    let pixel: Option<Vec<usize>> = pixel.collect();
                    let want = pixel
                        .map_or(0.0, |p| volume[windows.at(batch, p[0], p[1], p[2]) + channel]);
                    assert_eq!(got.to_bits(), want.to_bits(), "{axes:?} {at} {place}");
                }
            }
        }
    }
}
