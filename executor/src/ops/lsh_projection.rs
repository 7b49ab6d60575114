//! LSH_PROJECTION: locality-sensitive hashes of a tensor's items.

use nnburst_kernels::tensor::{OpError, Real, Shape, poll};

use super::Op;
use super::farmhash::fingerprint64;
use super::support::{by_real, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static LSH_PROJECTION: Op = Op { lower };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LshKind {
    /// One integer per hash function, without its number.
    SparseDeprecated,
    /// One integer per bit.
    Dense,
    /// One integer per hash function, distinct between functions.
    Sparse,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LshProjection {
    pub(super) kind: LshKind,
    pub(super) functions: usize,
    pub(super) bits: usize,
    pub(super) items: usize,
    pub(super) item_bytes: usize,
    pub(super) weighted: bool,
}

/// The weight is required in the dense mode, and left out in the sparse ones.
///
/// Source: NNAPI `LSH_PROJECTION`, since HAL 1.0; FLOAT16 and the sparse type 3 since 1.2.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (hash, input) = (op.input(0)?, op.input(1)?);
    let &[functions, bits] = &hash.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 2", hash.shape)).into());
    };
    if bits > 32 {
        return Err(OpError::input(0, format!("has {bits} bits, more than 32")).into());
    }
    let kind = match op.i32(3)? {
        1 => LshKind::SparseDeprecated,
        2 => LshKind::Dense,
        3 => LshKind::Sparse,
        other => return Err(OpError::input(3, format!("{other} is no projection")).into()),
    };
    let Some(&items) = input.shape.first() else {
        return Err(OpError::input(1, "has no items").into());
    };
    let weight = op.optional_input(2)?;
    if let Some(weight) = &weight
        && (weight.shape[..] != [items] || weight.kind != hash.kind)
    {
        let what = format!("is {} of {:?} for {items} items", weight.kind, weight.shape);
        return Err(OpError::input(2, what).into());
    }
    if weight.is_some() != (kind == LshKind::Dense) {
        return Err(OpError::input(2, "goes with the dense projection alone").into());
    }
    let item_bytes = input.shape.around(0).2 * input.kind.element_bytes().unwrap_or(1);
    let projection =
        LshProjection { kind, functions, bits, items, item_bytes, weighted: weight.is_some() };
    let outputs = if kind == LshKind::Dense { functions * bits } else { functions };
    op.set_output(0, Shape::new([outputs])?)?;
    by_real!(hash.kind, emit(op, projection))
}

/// Adds the step of some items (input 1), hashed by seeds (input 0), with weights (input 2).
pub(super) fn emit<T: Real>(op: &mut OpBuilder<'_>, projection: LshProjection) -> Lowered {
    let LshProjection { kind, functions, bits, items, item_bytes, weighted } = projection;
    let shape = op.output(0)?.shape;
    let bytes = 4 + item_bytes;
    op.emit_with_scratch(plain("lsh_projection", &shape, 0), bytes, move |mut io: Io<'_>| {
        let (hash, input) = (io.input::<T>(0), io.input::<u8>(1));
        let (weights, output) = (io.input::<T>(2), io.output::<i32>(0));
        let key = &mut io.scratch_slice::<u8>()[..4 + item_bytes];
        for function in poll::each(0..functions, 8) {
            let mut signature = 0u32;
            for bit in poll::each(0..bits, 8) {
                let seed = hash.get(function * bits + bit).to_f32();
                key[..4].copy_from_slice(&seed.to_le_bytes());
                let mut score = 0.0;
                for item in poll::each(0..items, 40 + item_bytes / 4) {
                    input.slice(item * item_bytes..(item + 1) * item_bytes).copy_to(&mut key[4..]);
                    #[expect(
                        clippy::cast_precision_loss,
                        reason = "rounded as the reference rounds it"
                    )]
                    let value = fingerprint64(key).cast_signed() as f64;
                    let weight = if weighted { f64::from(weights.get(item).to_f32()) } else { 1.0 };
                    score += weight * value;
                }
                let set = u32::from(score > 0.0);
                signature = signature << 1 | set;
                if kind == LshKind::Dense {
                    output.set(function * bits + bit, set.cast_signed());
                }
            }
            if kind != LshKind::Dense {
                let shift = u32::try_from(bits).unwrap_or(32);
                let number = u32::try_from(function).unwrap_or(u32::MAX);
                let offset = match kind {
                    LshKind::Sparse => number.checked_shl(shift).unwrap_or(0),
                    _ => 0,
                };
                output.set(function, signature.wrapping_add(offset).cast_signed());
            }
        }
        Ok(())
    });
    Ok(())
}
