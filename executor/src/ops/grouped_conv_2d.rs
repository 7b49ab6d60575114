//! GROUPED_CONV_2D: each group of output channels reads its own group of input channels.

use std::ops::Range;

use nnburst_hal::FusedActivation;

use super::Op;
use super::conv::{Sliding, check_bias, filter_extents, types};
use super::conv_taps::{self, Taps};
use super::support::{Image, Window};
use crate::error::OpError;
use crate::plan::{Label, Lowered, OpBuilder};

pub(super) static GROUPED_CONV_2D: Op = Op { lower };

#[derive(Clone, Copy, Debug)]
struct Conv {
    sliding: Sliding,
    /// Input channels of a group, and output channels of one.
    group_in: usize,
    group_out: usize,
}

/// Explicit paddings with 12 inputs, implicit with 9; the layout flag is mandatory, dilation unknown.
///
/// Source: NNAPI `GROUPED_CONV_2D`, since HAL 1.2; signed 8-bit since 1.3.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, filter, bias) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let (window, next) = Window::read(op, 3, op.input_count() >= 12)?;
    let groups = op.extent(next, 1)?;
    let activation = op.activation(next + 1)?;
    let nchw = op.bool(next + 2)?;
    let image = Image::of(0, &input.shape, nchw)?;
    let wanted = format_args!("{} channels in {groups} groups", image.channels);
    let [channels_out, filter_h, filter_w, group_in] =
        filter_extents(&filter, wanted, |[out, _, _, own]| {
            own.checked_mul(groups) == Some(image.channels) && out.is_multiple_of(groups)
        })?;
    check_bias(&bias, channels_out)?;
    let filter_extents = (filter_h, filter_w);
    let sliding = Sliding::new(op, image, &window, filter_extents, channels_out, activation)?;
    let conv = Conv { sliding, group_in, group_out: channels_out / groups };
    let types = types(&input, &filter, &bias, &op.output(0)?)?;
    conv_taps::emit(op, conv, types)
}

impl Taps for Conv {
    fn lines(&self) -> usize {
        self.sliding.lines()
    }

    fn each(
        &self,
        lines: Range<usize>,
        mut each: impl FnMut(usize, usize, &mut dyn Iterator<Item = (usize, usize)>),
    ) {
        let Sliding { input, output, vertical, horizontal, .. } = self.sliding;
        let group_in = self.group_in;
        for (n, y) in lines.map(|line| (line / output.height, line % output.height)) {
            for x in 0..output.width {
                for o in 0..output.channels {
                    let first_channel = o / self.group_out * group_in;
                    let first = o * vertical.filter * horizontal.filter;
                    let mut taps = vertical.taps(y).flat_map(|(i, row)| {
                        horizontal.taps(x).flat_map(move |(j, column)| {
                            let weight = (first + i * horizontal.filter + j) * group_in;
                            (0..group_in).map(move |c| {
                                (input.at(n, row, column, first_channel + c), weight + c)
                            })
                        })
                    });
                    each(output.at(n, y, x, o), o, &mut taps);
                }
            }
        }
    }

    fn label(&self) -> Result<Label, OpError> {
        self.sliding.label("grouped_conv_2d", self.group_in)
    }

    fn activation(&self) -> FusedActivation {
        self.sliding.activation
    }
}
