//! Models and requests in the terms of an older version of the HAL, and what is lost on the way.

use super::compliance::{noncompliant_operations, request_compliant_with};
use crate::memory::{Memory, MemoryError};
use crate::types::{ExtraParams, Model, Request, RequestPool, Version};

/// A converted value and what the conversion lost.
#[derive(Clone, Debug)]
pub struct Converted<T> {
    /// The value.
    pub value: T,
    /// Nothing where the version expresses all of it.
    pub losses: Vec<Loss>,
}

/// Something that an older version has no way to say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// An operation stays as it is, though the version does not know it in this form.
    #[error("operation {index} is not known there")]
    Operation {
        /// Its index in the main graph.
        index: usize,
    },
    /// The permission to compute with less precision.
    #[error("the permission to relax precision")]
    Relaxation,
    /// The graphs that IF and WHILE refer to.
    #[error("{count} referenced graphs")]
    ReferencedGraphs {
        /// The number there was.
        count: usize,
    },
    /// The table of extensions.
    #[error("{count} names of extensions")]
    Extensions {
        /// The number there was.
        count: usize,
    },
    /// Scales per channel or bytes of an extension.
    #[error("the extra parameters of operand {operand}")]
    ExtraParams {
        /// Its index in the main graph.
        operand: usize,
    },
    /// A memory that the version does not know; it stays as it is.
    #[error("pool {pool} is not known there")]
    Pool {
        /// Its index.
        pool: usize,
    },
    /// A driver-managed buffer; an empty memory takes its place.
    #[error("the driver-managed buffer of pool {pool}")]
    Token {
        /// Its index.
        pool: usize,
    },
}

/// The model in the terms of a version of the HAL. Towards 1.3 nothing changes. What an older
/// version has no field for is dropped; what it has no code for stays, and the receiver will refuse
/// it. Losses are also logged, as warnings.
pub fn convert_to(mut model: Model, version: Version) -> Converted<Model> {
    let mut losses: Vec<Loss> = noncompliant_operations(&model, version)
        .into_iter()
        .map(|index| Loss::Operation { index })
        .collect();
    for (pool, memory) in model.pools.iter().enumerate() {
        if crate::validate::validate_pool(memory, version).is_err() {
            losses.push(Loss::Pool { pool });
        }
    }
    if version < Version::V1_3 && !model.referenced.is_empty() {
        losses.push(Loss::ReferencedGraphs { count: model.referenced.len() });
        model.referenced.clear();
    }
    if version < Version::V1_2 {
        if !model.extension_name_to_prefix.is_empty() {
            let count = model.extension_name_to_prefix.len();
            losses.push(Loss::Extensions { count });
            model.extension_name_to_prefix.clear();
        }
        for (operand, params) in
            model.main.operands.iter_mut().map(|operand| &mut operand.extra_params).enumerate()
        {
            if std::mem::take(params) != ExtraParams::None {
                losses.push(Loss::ExtraParams { operand });
            }
        }
    }
    if version < Version::V1_1 && model.relax_computation_float32_to_float16 {
        losses.push(Loss::Relaxation);
        model.relax_computation_float32_to_float16 = false;
    }
    warn(&losses, "model", version);
    Converted { value: model, losses }
}

/// The request in the terms of a version of the HAL: before 1.3 driver-managed buffers become empty
/// memories, which the receiver will refuse.
///
/// # Errors
/// There is no memory to take a buffer's place.
pub fn convert_request_to(
    mut request: Request,
    version: Version,
) -> Result<Converted<Request>, MemoryError> {
    let mut losses = Vec::new();
    if !request_compliant_with(&request, version) {
        for (pool, slot) in request.pools.iter_mut().enumerate() {
            match slot {
                RequestPool::Token(_) if version < Version::V1_3 => {
                    *slot = RequestPool::Memory(Memory::ashmem(0)?);
                    losses.push(Loss::Token { pool });
                }
                RequestPool::Memory(memory)
                    if crate::validate::validate_pool(memory, version).is_err() =>
                {
                    losses.push(Loss::Pool { pool });
                }
                _ => {}
            }
        }
    }
    warn(&losses, "request", version);
    Ok(Converted { value: request, losses })
}

fn warn(losses: &[Loss], what: &'static str, version: Version) {
    for loss in losses {
        tracing::warn!(target: "nnburst::driver", ?version, "conversion of a {what} loses: {loss}");
    }
}
