//! The part of a model that an older version can express, as a model of its own.
//!
//! A driver of an older version is asked about this part; what it says of the part's operations is
//! what it says of the model's.

use super::compliance::noncompliant_operations;
use super::convert::convert_to;
use crate::types::{DataLocation, Model, Operand, OperandLifeTime, Operation, Subgraph, Version};
use crate::validate::validate_model;

/// Part of a model.
#[derive(Clone, Debug)]
pub struct ModelSlice {
    /// The part; valid for the version it was made for.
    pub model: Model,
    /// For each operation of the part, its index in the whole.
    pub operation_indexes: Vec<usize>,
}

/// The operations of a valid model that a version of the HAL can express, with their operands.
///
/// What the left-out operations would write becomes an input, what they would read an output.
/// `None` where nothing is left, or what is left is no valid model.
pub fn slice_for(model: &Model, version: Version) -> Option<ModelSlice> {
    let dropped = noncompliant_operations(model, version);
    let keep: Vec<bool> = {
        let mut keep = vec![true; model.main.operations.len()];
        for &index in &dropped {
            *keep.get_mut(index)? = false;
        }
        keep
    };
    let operations = || model.main.operations.iter().zip(&keep);
    let mut builder = Builder::new(&model.main);
    for (operation, _) in operations().filter(|&(_, &keep)| !keep) {
        builder.leave_out(operation)?;
    }
    for (operation, _) in operations().filter(|&(_, &keep)| keep) {
        builder.take(operation)?;
    }
    let main = builder.finish()?;
    if main.operations.is_empty() || main.output_indexes.is_empty() {
        return None;
    }
    let part = Model {
        main,
        referenced: if version >= Version::V1_3 { model.referenced.clone() } else { Vec::new() },
        operand_values: model.operand_values.clone(),
        pools: model.pools.clone(),
        relax_computation_float32_to_float16: model.relax_computation_float32_to_float16,
        extension_name_to_prefix: model.extension_name_to_prefix.clone(),
    };
    let part = convert_to(without_idle_pools(part), version).value;
    validate_model(&part, version).ok()?;
    let kept = keep.iter().enumerate().filter(|&(_, &keep)| keep);
    Some(ModelSlice { model: part, operation_indexes: kept.map(|(index, _)| index).collect() })
}

/// Copies operands over as operations ask for them.
struct Builder<'a> {
    whole: &'a Subgraph,
    part: Subgraph,
    /// For each operand of the whole, its index in the part.
    moved: Vec<Option<u32>>,
    read_elsewhere: Vec<bool>,
    written_elsewhere: Vec<bool>,
}

impl<'a> Builder<'a> {
    fn new(whole: &'a Subgraph) -> Self {
        let count = whole.operands.len();
        Self {
            whole,
            part: Subgraph::default(),
            moved: vec![None; count],
            read_elsewhere: vec![false; count],
            written_elsewhere: vec![false; count],
        }
    }

    fn leave_out(&mut self, operation: &Operation) -> Option<()> {
        for &input in &operation.inputs {
            *self.read_elsewhere.get_mut(at(input)?)? = true;
        }
        for &output in &operation.outputs {
            *self.written_elsewhere.get_mut(at(output)?)? = true;
        }
        Some(())
    }

    fn take(&mut self, operation: &Operation) -> Option<()> {
        let mut moved = operation.clone();
        for input in &mut moved.inputs {
            *input = self.move_over(*input)?;
            let operand = self.part.operands.get_mut(at(*input)?)?;
            operand.number_of_consumers = operand.number_of_consumers.saturating_add(1);
        }
        for output in &mut moved.outputs {
            *output = self.move_over(*output)?;
        }
        self.part.operations.push(moved);
        Some(())
    }

    fn move_over(&mut self, index: u32) -> Option<u32> {
        let from = at(index)?;
        if let Some(index) = *self.moved.get(from)? {
            return Some(index);
        }
        let index = u32::try_from(self.part.operands.len()).ok()?;
        let whole = self.whole.operands.get(from)?;
        let mut operand = Operand { number_of_consumers: 0, ..whole.clone() };
        let is_computed = matches!(
            whole.lifetime,
            OperandLifeTime::TemporaryVariable | OperandLifeTime::SubgraphOutput
        );
        if is_computed && *self.written_elsewhere.get(from)? {
            operand.lifetime = OperandLifeTime::SubgraphInput;
        } else if is_computed && *self.read_elsewhere.get(from)? {
            operand.lifetime = OperandLifeTime::SubgraphOutput;
        }
        self.part.operands.push(operand);
        *self.moved.get_mut(from)? = Some(index);
        Some(index)
    }

    /// Lists inputs and outputs: those of the whole first, in its order, then what the cut made.
    fn finish(mut self) -> Option<Subgraph> {
        for (lifetime, listed, list) in [
            (
                OperandLifeTime::SubgraphInput,
                &self.whole.input_indexes,
                &mut self.part.input_indexes,
            ),
            (
                OperandLifeTime::SubgraphOutput,
                &self.whole.output_indexes,
                &mut self.part.output_indexes,
            ),
        ] {
            let operands = &self.part.operands;
            let has_lifetime = |&index: &u32| {
                at(index).and_then(|at| operands.get(at)).map(|operand| operand.lifetime)
                    == Some(lifetime)
            };
            let mut seen = vec![false; operands.len()];
            let old = listed.iter().filter_map(|&index| *self.moved.get(at(index)?)?);
            let all = 0..u32::try_from(operands.len()).ok()?;
            for index in old.chain(all).filter(has_lifetime) {
                if !std::mem::replace(seen.get_mut(at(index)?)?, true) {
                    list.push(index);
                }
            }
        }
        Some(self.part)
    }
}

/// Leaves out the pools that no operand uses: the version may not know them. A version with
/// referenced graphs knows them all.
fn without_idle_pools(mut model: Model) -> Model {
    if !model.referenced.is_empty() {
        return model;
    }
    let mut moved = vec![None; model.pools.len()];
    let mut pools = Vec::new();
    for operand in &mut model.main.operands {
        if operand.lifetime != OperandLifeTime::ConstantReference {
            continue;
        }
        let Some(index) = at(operand.location.pool_index) else { continue };
        let (Some(slot), Some(pool)) = (moved.get_mut(index), model.pools.get(index)) else {
            continue;
        };
        let pool_index = *slot.get_or_insert_with(|| {
            pools.push(pool.clone());
            u32::try_from(pools.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        operand.location = DataLocation { pool_index, ..operand.location };
    }
    model.pools = pools;
    model
}

fn at(index: u32) -> Option<usize> {
    usize::try_from(index).ok()
}
