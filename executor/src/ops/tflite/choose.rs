//! SELECT: elements of one of two tensors, as a third says for each; all three broadcast.

use nnburst_kernels::tensor::{OpError, Shape};

use super::arg::{ElementKind, OperatorCall, refused};
use crate::lowering::{Label, Lowered};
use crate::ops::select::{Places, choose};

/// Elements of the second or third input, as the first says; all three broadcast.
pub(super) fn select(call: &mut OperatorCall<'_, '_>, broadcasts: bool) -> Lowered {
    let (condition, a, b) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    if condition.kind != ElementKind::Bool {
        return Err(refused(0, condition.kind).into());
    }
    a.same_kind(&b)?;
    call.same(&a, 0)?;
    let mut own = condition.shape;
    let wide = if broadcasts {
        own.broadcast(&a.shape)?.broadcast(&b.shape)?
    } else {
        if a.shape != b.shape {
            return Err(OpError::rule("the values differ in shape").into());
        }
        // A condition of one dimension chooses whole rows.
        if own.rank() == 1 && a.shape.rank() > 1 && own.first() == a.shape.first() {
            let mut extents = own.to_vec();
            extents.resize(a.shape.rank(), 1);
            own = Shape::new(extents)?;
        }
        own.broadcast(&a.shape)?
    };
    let shape = call.set(0, &wide)?;
    let strides = [&own, &a.shape, &b.shape].map(|it| it.broadcast_strides(&wide));
    let (label, isa) = (call.label(&shape), call.isa());
    if shape.contains(&0) {
        call.emit(label, |_| Ok(()));
        return Ok(());
    }
    let label = Label { form: isa.of_loops(), ..label };
    let places = Places::new(&shape, strides.each_ref().map(Vec::as_slice));
    match a.kind.bytes() {
        1 => choose::<u8>(call, label, places),
        2 => choose::<u16>(call, label, places),
        4 => choose::<u32>(call, label, places),
        8 => choose::<u64>(call, label, places),
        _ => return Err(refused(1, a.kind).into()),
    }
    Ok(())
}
