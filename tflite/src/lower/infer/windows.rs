//! Extents of what windows go over: convolutions and pools.

use crate::flatbuffer::Field;
use crate::lower::{Lower, Lowered};
use crate::schema::Builtin;
use crate::schema::options::{self, Fields, OptionsKind};

impl Lower<'_, '_> {
    /// The result of windows that reach beyond what they go over, which has no elements. False
    /// where there are some.
    pub(in crate::lower) fn windows_without_elements(&mut self) -> Lowered<bool> {
        let dims = match self.builtin() {
            Builtin::Conv2d => self.conv_dims(&CONV),
            Builtin::DepthwiseConv2d => self.conv_dims(&DEPTHWISE),
            Builtin::AveragePool2d | Builtin::MaxPool2d | Builtin::L2Pool2d => self.pool_dims(),
            _ => None,
        };
        let Some(dims) = dims.filter(|dims| dims.contains(&0)) else { return Ok(false) };
        self.bind_empty(0, dims)?;
        Ok(true)
    }

    pub(super) fn conv_dims(&self, fields: &ConvFields) -> Option<Vec<u32>> {
        let (input, filter) = (self.dims(0)?, self.dims(1)?);
        let (&[batch, height, width, _], &[first, rows, columns, last]) = (&input[..], &filter[..])
        else {
            return None;
        };
        let options = self.options(fields.kind).ok()?;
        let padding = options.byte(fields.padding).ok()?;
        let int = |field, default| positive(&options, field, default);
        let (stride_w, stride_h) = (int(fields.strides[0], 0)?, int(fields.strides[1], 0)?);
        let (wide, high) = (int(fields.dilations[0], 1)?, int(fields.dilations[1], 1)?);
        let spread = |taps: u32, by: u32| taps.checked_sub(1)?.checked_mul(by)?.checked_add(1);
        Some(vec![
            batch,
            windows(padding, height, spread(rows, high)?, stride_h)?,
            windows(padding, width, spread(columns, wide)?, stride_w)?,
            if fields.is_depthwise { last } else { first },
        ])
    }

    pub(super) fn pool_dims(&self) -> Option<Vec<u32>> {
        use options::pool_2d as o;
        let input = self.dims(0)?;
        let &[batch, height, width, channels] = &input[..] else { return None };
        let options = self.options(o::KIND).ok()?;
        let padding = options.byte(o::PADDING).ok()?;
        let int = |field| positive(&options, field, 0);
        Some(vec![
            batch,
            windows(padding, height, int(o::FILTER_HEIGHT)?, int(o::STRIDE_H)?)?,
            windows(padding, width, int(o::FILTER_WIDTH)?, int(o::STRIDE_W)?)?,
            channels,
        ])
    }
}

/// The fields of a convolution's options.
pub(super) struct ConvFields {
    kind: OptionsKind,
    padding: Field,
    /// Along the width, then the height.
    strides: [Field; 2],
    dilations: [Field; 2],
    is_depthwise: bool,
}

pub(super) const CONV: ConvFields = ConvFields {
    kind: options::conv_2d::KIND,
    padding: options::conv_2d::PADDING,
    strides: [options::conv_2d::STRIDE_W, options::conv_2d::STRIDE_H],
    dilations: [options::conv_2d::DILATION_W, options::conv_2d::DILATION_H],
    is_depthwise: false,
};

pub(super) const DEPTHWISE: ConvFields = ConvFields {
    kind: options::depthwise_conv_2d::KIND,
    padding: options::depthwise_conv_2d::PADDING,
    strides: [options::depthwise_conv_2d::STRIDE_W, options::depthwise_conv_2d::STRIDE_H],
    dilations: [options::depthwise_conv_2d::DILATION_W, options::depthwise_conv_2d::DILATION_H],
    is_depthwise: true,
};

/// The value of an option that has to be positive.
pub(super) fn positive(options: &Fields<'_>, field: Field, default: i32) -> Option<u32> {
    let value = options.int(field, default).ok()?;
    u32::try_from(value).ok().filter(|&value| value > 0)
}

/// The number of windows of so many elements along an extent: SAME (0) pads, VALID (1) does not.
fn windows(padding: i8, extent: u32, taps: u32, stride: u32) -> Option<u32> {
    match padding {
        0 => Some(extent.div_ceil(stride)),
        // None where the window reaches beyond the extent, but by less than a step.
        1 => Some(extent.checked_add(stride)?.checked_sub(taps)? / stride),
        _ => None,
    }
}
