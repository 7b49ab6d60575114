//! Models of the HAL, built again call by call.

use std::sync::Arc;

use nnburst::RuntimeError;
use nnburst::hal::{self, Operand, OperandLifeTime, Subgraph};

use crate::api::{Api, ChannelQuant, OperandType};
use crate::object::Owned;
use crate::{Device, Library};

/// A finished model.
#[derive(Debug)]
pub struct Model {
    object: Owned,
    /// The memory of its constants, and the models it refers to.
    _parts: Parts,
    operations: usize,
    pub(crate) arguments: Arc<Arguments>,
}

/// Inputs and outputs, as the model has them.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) inputs: Vec<Operand>,
    pub(crate) outputs: Vec<Operand>,
}

/// A model that is ready to run.
#[derive(Debug)]
pub struct Compilation {
    pub(crate) object: Owned,
    pub(crate) burst: Owned,
    pub(crate) arguments: Arc<Arguments>,
}

#[derive(Debug, Default)]
struct Parts {
    memories: Vec<Owned>,
    models: Vec<Owned>,
}

/// As deep as graphs refer to each other.
const DEEPEST: usize = 64;

impl Library {
    /// Builds a model.
    ///
    /// # Errors
    /// What the library answered.
    pub fn model(&self, model: &hal::Model) -> Result<Model, RuntimeError> {
        let mut parts = Parts::default();
        for pool in &model.pools {
            parts.memories.push(Owned::memory(&self.0, pool, 0, pool.size())?);
        }
        let object = build(&self.0, model, &model.main, &mut parts, 0)?;
        let operands = |indexes: &[u32]| {
            let at = |&index: &u32| model.main.operands.get(usize::try_from(index).ok()?).cloned();
            indexes.iter().filter_map(at).collect()
        };
        let arguments = Arc::new(Arguments {
            inputs: operands(&model.main.input_indexes),
            outputs: operands(&model.main.output_indexes),
        });
        Ok(Model { object, _parts: parts, operations: model.main.operations.len(), arguments })
    }
}

impl Model {
    /// For each operation, whether the device takes it.
    ///
    /// # Errors
    /// What the library answered.
    pub fn supported(&self, device: &Device) -> Result<Vec<bool>, RuntimeError> {
        let mut supported = vec![false; self.operations];
        let api = &self.object.api;
        let ask = api.ANeuralNetworksModel_getSupportedOperationsForDevices;
        // SAFETY: one device is pointed to, and there is room for all operations.
        api.check(unsafe {
            ask(self.object.object, &raw const device.0, 1, supported.as_mut_ptr())
        })?;
        Ok(supported)
    }

    /// Compiles for one device, and opens a burst.
    ///
    /// # Errors
    /// What the library answered.
    pub fn compile(&self, device: &Device) -> Result<Compilation, RuntimeError> {
        let api = &self.object.api;
        let create = api.ANeuralNetworksCompilation_createForDevices;
        let object = Owned::make(api, api.ANeuralNetworksCompilation_free, |made| {
            // SAFETY: one device is pointed to, the result outlives the call.
            unsafe { create(self.object.object, &raw const device.0, 1, made) }
        })?;
        // SAFETY: the compilation is ours.
        api.check(unsafe { (api.ANeuralNetworksCompilation_finish)(object.object) })?;
        let create = api.ANeuralNetworksBurst_create;
        let burst = Owned::make(api, api.ANeuralNetworksBurst_free, |made| {
            // SAFETY: the compilation is ours, the result outlives the call.
            unsafe { create(object.object, made) }
        })?;
        Ok(Compilation { object, burst, arguments: Arc::clone(&self.arguments) })
    }
}

fn build(
    api: &Arc<Api>,
    model: &hal::Model,
    graph: &Subgraph,
    parts: &mut Parts,
    depth: usize,
) -> Result<Owned, RuntimeError> {
    if depth > DEEPEST {
        return Err(RuntimeError::Model("graphs refer to each other without end".into()));
    }
    let create = api.ANeuralNetworksModel_create;
    let built = Owned::make(api, api.ANeuralNetworksModel_free, |made| {
        // SAFETY: the result outlives the call.
        unsafe { create(made) }
    })?;
    for (index, operand) in (0..).zip(&graph.operands) {
        add_operand(api, &built, index, operand)?;
        set_value(api, model, &built, index, operand, parts, depth)?;
    }
    for operation in &graph.operations {
        let (inputs, outputs) = (&operation.inputs, &operation.outputs);
        let kind = operation.kind.code().cast_signed();
        // SAFETY: the lists are as long as is said.
        api.check(unsafe {
            (api.ANeuralNetworksModel_addOperation)(
                built.object,
                kind,
                count(inputs),
                inputs.as_ptr(),
                count(outputs),
                outputs.as_ptr(),
            )
        })?;
    }
    let (inputs, outputs) = (&graph.input_indexes, &graph.output_indexes);
    // SAFETY: the lists are as long as is said.
    api.check(unsafe {
        (api.ANeuralNetworksModel_identifyInputsAndOutputs)(
            built.object,
            count(inputs),
            inputs.as_ptr(),
            count(outputs),
            outputs.as_ptr(),
        )
    })?;
    let relax = api.ANeuralNetworksModel_relaxComputationFloat32toFloat16;
    // SAFETY: the model is ours.
    api.check(unsafe { relax(built.object, model.relax_computation_float32_to_float16) })?;
    // SAFETY: the model is ours.
    api.check(unsafe { (api.ANeuralNetworksModel_finish)(built.object) })?;
    Ok(built)
}

fn add_operand(
    api: &Api,
    built: &Owned,
    index: i32,
    operand: &Operand,
) -> Result<(), RuntimeError> {
    let kind = operand_type(operand, &operand.dimensions);
    // SAFETY: the structure, and the dimensions it points to, outlive the call.
    api.check(unsafe { (api.ANeuralNetworksModel_addOperand)(built.object, &raw const kind) })?;
    if let Some(quant) = operand.channel_quant() {
        let params = ChannelQuant {
            channel_dim: quant.channel_dim,
            scale_count: u32::try_from(quant.scales.len()).unwrap_or(u32::MAX),
            scales: quant.scales.as_ptr(),
        };
        let set = api.ANeuralNetworksModel_setOperandSymmPerChannelQuantParams;
        // SAFETY: the structure, and the scales it points to, outlive the call.
        api.check(unsafe { set(built.object, index, &raw const params) })?;
    }
    Ok(())
}

fn set_value(
    api: &Arc<Api>,
    model: &hal::Model,
    built: &Owned,
    index: i32,
    operand: &Operand,
    parts: &mut Parts,
    depth: usize,
) -> Result<(), RuntimeError> {
    let wide = |size: u32| usize::try_from(size).unwrap_or(usize::MAX);
    let (offset, length) = (wide(operand.location.offset), wide(operand.location.length));
    let missing = || RuntimeError::Model(format!("operand {index}: its value is not there"));
    match operand.lifetime {
        OperandLifeTime::ConstantCopy => {
            let range = offset..offset.saturating_add(length);
            let bytes = model.operand_values.get(range).ok_or_else(missing)?;
            // SAFETY: the bytes outlive the model's construction.
            api.check(unsafe {
                (api.ANeuralNetworksModel_setOperandValue)(
                    built.object,
                    index,
                    bytes.as_ptr().cast(),
                    length,
                )
            })
        }
        OperandLifeTime::ConstantReference => {
            let pool = parts.memories.get(wide(operand.location.pool_index)).ok_or_else(missing)?;
            let set = api.ANeuralNetworksModel_setOperandValueFromMemory;
            // SAFETY: the memory is ours.
            api.check(unsafe { set(built.object, index, pool.object, offset, length) })
        }
        OperandLifeTime::NoValue => {
            let set = api.ANeuralNetworksModel_setOperandValue;
            // SAFETY: null with no bytes is how an operand is left out.
            api.check(unsafe { set(built.object, index, std::ptr::null(), 0) })
        }
        OperandLifeTime::Subgraph => {
            let graph = model.referenced.get(offset).ok_or_else(missing)?;
            let other = build(api, model, graph, parts, depth.saturating_add(1))?;
            let set = api.ANeuralNetworksModel_setOperandValueFromModel;
            // SAFETY: both models are ours.
            let result = api.check(unsafe { set(built.object, index, other.object) });
            parts.models.push(other);
            result
        }
        OperandLifeTime::TemporaryVariable
        | OperandLifeTime::SubgraphInput
        | OperandLifeTime::SubgraphOutput => Ok(()),
    }
}

/// The structure for an operand in a shape, which it points to.
pub(crate) fn operand_type(operand: &Operand, dimensions: &[u32]) -> OperandType {
    OperandType {
        kind: operand.kind.code().cast_signed(),
        dimension_count: count(dimensions),
        dimensions: if dimensions.is_empty() { std::ptr::null() } else { dimensions.as_ptr() },
        scale: operand.scale,
        zero_point: operand.zero_point,
    }
}

fn count(list: &[u32]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
