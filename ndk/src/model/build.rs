//! A model while it is built.

use std::collections::BTreeMap;

use nnburst::hal::{
    self, Access, ChannelQuant, DataLocation, ExtraParams, Operand, OperandLifeTime, Operation,
    OperationType, Subgraph, ValidationMode, Version,
};

use crate::c::{Bytes, OperandType, SymmPerChannelQuantParams};
use crate::error::{Code, Error, Result};
use crate::extension;

/// Values up to this many bytes are copied at once, larger ones when the model is finished.
const IMMEDIATE_BYTES: usize = 128;
/// The alignment of values within a pool of ours: at a cache line.
const POOL_ALIGNMENT: usize = 64;
/// As many operands, and as many operations, a model may have.
const MOST: usize = 0xFFFF_FFFE;

/// A model while it is built; a HAL model all along, but for the places of large values.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    model: hal::Model,
    /// By operand: values that stay in the caller's memory until the model is finished.
    large: BTreeMap<usize, Large>,
}

#[derive(Debug)]
struct Large {
    bytes: Bytes,
    length: usize,
}

/// The operand that a C structure describes: type, shape and quantisation, checked.
///
/// # Errors
/// `BAD_DATA`, or `UNEXPECTED_NULL` for dimensions that are counted and not there.
pub(crate) fn operand_of(kind: &OperandType) -> Result<Operand> {
    let code = u32::try_from(kind.kind)
        .map_err(|_| Error::data(format!("{} is no operand type", kind.kind)))?;
    let dimensions = if kind.dimension_count == 0 {
        if !kind.dimensions.is_null() {
            return Err(Error::data("dimensions are given, and none are counted"));
        }
        Vec::new()
    } else {
        let dimensions = kind.dimensions.elements(kind.dimension_count, "dimensions");
        dimensions.map_err(|error| Error::data(error.reason))?.to_vec()
    };
    let code = hal::OperandType::try_from(code).map_err(|error| Error::data(error.to_string()))?;
    let operand = Operand::tensor(code, dimensions).with_quantization(kind.scale, kind.zero_point);
    if let hal::OperandType::Extension(code) = operand.kind {
        extension::check_operand(code, &operand)?;
    }
    hal::validate_operand_type(&operand, Version::V1_3)
        .map_err(|rule| Error::data(rule.to_string()))?;
    Ok(operand)
}

impl Builder {
    pub(super) fn into_model(self) -> hal::Model {
        self.model
    }

    pub(super) fn relax(&mut self, allow: bool) {
        self.model.relax_computation_float32_to_float16 = allow;
    }

    pub(super) fn add_operand(&mut self, kind: &OperandType) -> Result<()> {
        let operand = operand_of(kind)?;
        if self.model.main.operands.len() >= MOST {
            return Err(Error::data("the model has as many operands as it may have"));
        }
        self.model.main.operands.push(operand);
        Ok(())
    }

    pub(super) fn set_value(&mut self, index: i32, bytes: Bytes, length: usize) -> Result<()> {
        let at = self.check_index(index)?;
        if bytes.is_null() {
            let operand = self.operand(at)?;
            operand.lifetime = OperandLifeTime::NoValue;
            operand.location = DataLocation::default();
            self.large.remove(&at);
            return Ok(());
        }
        let stored = self.check_constant(at, length)?;
        let location = if length <= IMMEDIATE_BYTES {
            let values = &mut self.model.operand_values;
            values.resize(values.len().next_multiple_of(4), 0);
            let offset = size(values.len())?;
            values.extend(bytes.view(length).to_vec());
            self.large.remove(&at);
            DataLocation { pool_index: 0, offset, length: stored }
        } else {
            self.large.insert(at, Large { bytes, length });
            // The place is known once all values are.
            DataLocation { pool_index: u32::MAX, offset: 0, length: stored }
        };
        let operand = self.operand(at)?;
        operand.location = location;
        operand.lifetime = if length <= IMMEDIATE_BYTES {
            OperandLifeTime::ConstantCopy
        } else {
            OperandLifeTime::ConstantReference
        };
        Ok(())
    }

    pub(super) fn set_value_from_memory(
        &mut self,
        index: i32,
        memory: &nnburst::Memory,
        offset: usize,
        length: usize,
    ) -> Result<()> {
        let at = self.check_index(index)?;
        let stored = self.check_constant(at, length)?;
        let offset = size(offset)?;
        let place = memory.place_constant(offset, stored)?;
        let pool = memory.shared().ok_or_else(|| Error::data("the memory holds no constants"))?;
        let pool_index = size(pool_index(&mut self.model.pools, pool))?;
        let operand = self.operand(at)?;
        operand.lifetime = OperandLifeTime::ConstantReference;
        operand.location = DataLocation { pool_index, ..place };
        self.large.remove(&at);
        Ok(())
    }

    /// The graphs of `value` become graphs that this model refers to.
    pub(super) fn set_value_from_model(&mut self, index: i32, value: &hal::Model) -> Result<()> {
        let at = self.check_index(index)?;
        let first = size(self.model.referenced.len())?;
        let values = &mut self.model.operand_values;
        values.resize(values.len().next_multiple_of(4), 0);
        let copied = size(values.len())?;
        values.extend_from_slice(&value.operand_values);
        let pools = &mut self.model.pools;
        let pools: Vec<usize> = value.pools.iter().map(|pool| pool_index(pools, pool)).collect();
        let moved = |operand: &mut Operand| -> Result<()> {
            let location = &mut operand.location;
            match operand.lifetime {
                OperandLifeTime::ConstantCopy => {
                    location.offset = location.offset.saturating_add(copied);
                }
                OperandLifeTime::ConstantReference => {
                    let pool = usize::try_from(location.pool_index).ok();
                    let pool = pool.and_then(|pool| pools.get(pool)).copied();
                    location.pool_index = pool.map_or(Ok(u32::MAX), size)?;
                }
                OperandLifeTime::Subgraph => {
                    // Its own graphs follow its main graph.
                    location.offset = location.offset.saturating_add(first).saturating_add(1);
                }
                _ => {}
            }
            Ok(())
        };
        for graph in std::iter::once(&value.main).chain(&value.referenced) {
            let mut graph: Subgraph = graph.clone();
            graph.operands.iter_mut().try_for_each(moved)?;
            self.model.referenced.push(graph);
        }
        let operand = self.operand(at)?;
        operand.lifetime = OperandLifeTime::Subgraph;
        operand.location = DataLocation { pool_index: 0, offset: first, length: 0 };
        self.large.remove(&at);
        Ok(())
    }

    pub(super) fn set_channel_quant(
        &mut self,
        index: i32,
        params: &SymmPerChannelQuantParams,
    ) -> Result<()> {
        let at = self.check_index(index)?;
        let operand = self.operand(at)?;
        if operand.kind != hal::OperandType::TensorQuant8SymmPerChannel {
            return Err(Error::data(format!("a {} has no scales per channel", operand.kind)));
        }
        let scales = params.scales.elements(params.scale_count, "scales");
        let scales = scales.map_err(|error| Error::data(error.reason))?.to_vec();
        let quant = ChannelQuant { scales, channel_dim: params.channel_dim };
        hal::validate_channel_quant(&quant, &operand.dimensions)
            .map_err(|rule| Error::data(rule.to_string()))?;
        operand.extra_params = ExtraParams::ChannelQuant(quant);
        Ok(())
    }

    pub(super) fn set_extension_data(
        &mut self,
        index: i32,
        data: Bytes,
        length: usize,
    ) -> Result<()> {
        let at = self.check_index(index)?;
        if !data.is_null() && length == 0 {
            return Err(Error::data("data is given, and its length is 0"));
        }
        let operand = self.operand(at)?;
        if !operand.kind.is_extension() {
            return Err(Error::data(format!("{} is no type of an extension", operand.kind)));
        }
        operand.extra_params = if data.is_null() {
            ExtraParams::None
        } else {
            let mut copied = hal::try_filled(0, length)?;
            data.view(length).copy_to_slice(&mut copied);
            ExtraParams::Extension(copied)
        };
        Ok(())
    }

    pub(super) fn add_operation(
        &mut self,
        kind: i32,
        inputs: &[u32],
        outputs: &[u32],
    ) -> Result<()> {
        let unknown = || Error::data(format!("{kind} is no operation"));
        let code = u32::try_from(kind).map_err(|_| unknown())?;
        let kind = OperationType::try_from(code).map_err(|_| unknown())?;
        if matches!(kind, OperationType::Extension(_)) {
            extension::check_allowed()?;
        }
        if self.model.main.operations.len() >= MOST {
            return Err(Error::data("the model has as many operations as it may have"));
        }
        let operation = Operation { kind, inputs: inputs.to_vec(), outputs: outputs.to_vec() };
        hal::validate_operation(&operation, &self.model, Version::V1_3, ValidationMode::Runtime)
            .map_err(|rule| Error::data(format!("{kind}: {rule}")))?;
        for &input in inputs {
            let at = usize::try_from(input).unwrap_or(usize::MAX);
            let consumers = &mut self.operand(at)?.number_of_consumers;
            *consumers = consumers.saturating_add(1);
        }
        self.model.main.operations.push(operation);
        Ok(())
    }

    pub(super) fn identify(&mut self, inputs: &[u32], outputs: &[u32]) -> Result<()> {
        let mut seen = std::collections::HashSet::new();
        for &index in inputs.iter().chain(outputs) {
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            let operand = self.operand(at)?;
            if operand.lifetime != OperandLifeTime::TemporaryVariable {
                return Err(Error::data(format!(
                    "operand {index} is a {} already",
                    operand.lifetime
                )));
            }
            if !seen.insert(index) {
                return Err(Error::data(format!("operand {index} is named twice")));
            }
        }
        for (list, lifetime) in
            [(inputs, OperandLifeTime::SubgraphInput), (outputs, OperandLifeTime::SubgraphOutput)]
        {
            for &index in list {
                self.operand(usize::try_from(index).unwrap_or(usize::MAX))?.lifetime = lifetime;
            }
        }
        self.model.main.input_indexes = inputs.to_vec();
        self.model.main.output_indexes = outputs.to_vec();
        Ok(())
    }

    /// Copies the large values into a memory that goes to the driver as it is.
    pub(super) fn place_large_values(&mut self) -> Result<()> {
        if self.large.is_empty() {
            return Ok(());
        }
        let mut total = 0usize;
        let mut places = Vec::with_capacity(self.large.len());
        for (&at, large) in &self.large {
            places.push((at, size(total)?));
            total = total.saturating_add(large.length).next_multiple_of(POOL_ALIGNMENT);
        }
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        let no_room = |error: hal::MemoryError| Error::new(Code::OutOfMemory, error.to_string());
        let memory = hal::Memory::ashmem(total).map_err(no_room)?;
        let mapping = memory.map(Access::ReadWrite).map_err(no_room)?;
        let pool_index = size(self.model.pools.len())?;
        for ((at, offset), large) in places.into_iter().zip(self.large.values()) {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            if let Some(view) = mapping.view_mut(start..start.saturating_add(large.length)) {
                view.copy_from(large.bytes.view(large.length));
            }
            if let Some(operand) = self.model.main.operands.get_mut(at) {
                operand.location.pool_index = pool_index;
                operand.location.offset = offset;
            }
        }
        self.model.pools.push(memory);
        self.large.clear();
        Ok(())
    }

    fn check_index(&self, index: i32) -> Result<usize> {
        let operands = self.model.main.operands.len();
        usize::try_from(index)
            .ok()
            .filter(|&at| at < operands)
            .ok_or_else(|| Error::data(format!("operand {index} named, there are {operands}")))
    }

    fn operand(&mut self, at: usize) -> Result<&mut Operand> {
        let operands = self.model.main.operands.len();
        self.model
            .main
            .operands
            .get_mut(at)
            .ok_or_else(|| Error::data(format!("operand {at} named, there are {operands}")))
    }

    /// Returns whether an operand may have a constant of so many bytes; the length as it is stored.
    fn check_constant(&mut self, at: usize, length: usize) -> Result<u32> {
        let operand = self.operand(at)?;
        if extension::is_open(operand) {
            let shape = &operand.dimensions;
            return Err(Error::data(format!("operand {at}: a constant of shape {shape:?}")));
        }
        let stored = size(length)?;
        let needed = extension::data_size(operand)?;
        if operand.kind != hal::OperandType::Oem && needed != u64::from(stored) {
            return Err(Error::data(format!("operand {at}: {length} bytes given, not {needed}")));
        }
        Ok(stored)
    }
}

/// The index of a memory among the pools; it is added if it is new.
fn pool_index(pools: &mut Vec<hal::Memory>, memory: &hal::Memory) -> usize {
    pools.iter().position(|pool| pool.id() == memory.id()).unwrap_or_else(|| {
        pools.push(memory.clone());
        pools.len() - 1
    })
}

fn size(size: usize) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::data(format!("{size} is beyond 32 bits")))
}
