//! Context of lowering: model, machine and options.

use std::sync::Arc;

use nnburst_hal::Budget;
use nnburst_kernels::kernels::Precision;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::AlignedBytes;
use nnburst_kernels::tensor::packed::Packs;

use super::constant::Reader;
use super::extension::{ExtensionRegistry, Types};
use super::graph::Graph;

/// The model and machine as lowering needs them.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) graphs: Vec<Graph>,
    /// Reads constants, until the model is compiled.
    pub(crate) reader: Option<Reader>,
    pub(crate) isa: Isa,
    pub(crate) precision: Precision,
    pub(crate) threads: usize,
    pub(crate) extensions: ExtensionRegistry,
    pub(crate) arena_limit: usize,
    /// True if steps and values stay apart.
    pub(crate) apart: bool,
    /// Most operations that are lowered at a time: branches of branches must not multiply without
    /// end.
    pub(crate) operation_limit: usize,
    /// Most values that these may have.
    pub(crate) value_limit: usize,
    /// Prefixes of the model and the names they stand for.
    pub(crate) extension_names: Vec<(u16, String)>,
    pub(crate) types: Types,
    pub(crate) packs: Arc<Packs>,
    /// Packed weights out of a cache.
    pub(crate) weights: Option<Arc<AlignedBytes>>,
    /// The budget that memory is charged to.
    pub(crate) budget: Option<Arc<Budget>>,
}
