//! CONV_2D and DEPTHWISE_CONV_2D of every type: of integers, of floats, and of floats by integers.

use super::arg::{ElementKind, OperatorCall};
use super::{conv, hybrid_conv, hybrid_groups, hybrid_transpose, ordered_conv};
use crate::lowering::Lowered;

pub(super) fn conv_2d(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, filter) = (call.arg(0)?, call.arg(1)?);
    match (input.kind, filter.kind) {
        (ElementKind::F32, ElementKind::F32) => ordered_conv::conv_2d(call, &input, &filter),
        (ElementKind::F32, _) if input.shape.last() == filter.shape.last() => {
            hybrid_conv::conv_2d(call, &input, filter)
        }
        (ElementKind::F32, _) => hybrid_groups::conv_2d(call, &input, &filter),
        _ => conv::conv_2d(call),
    }
}

pub(super) fn depthwise_conv_2d(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, filter) = (call.arg(0)?, call.arg(1)?);
    match (input.kind, filter.kind) {
        (ElementKind::F32, ElementKind::F32) => {
            ordered_conv::depthwise_conv_2d(call, &input, &filter)
        }
        (ElementKind::F32, _) => hybrid_conv::depthwise_conv_2d(call, &input, filter),
        _ => conv::depthwise_conv_2d(call),
    }
}

pub(super) fn transpose_conv(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (filter, input) = (call.arg(1)?, call.arg(2)?);
    match input.kind {
        ElementKind::F32 => hybrid_transpose::transpose_conv(call, filter, &input),
        _ => conv::transpose_conv(call),
    }
}
