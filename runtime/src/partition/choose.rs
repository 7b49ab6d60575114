//! Which device is best for each operation of a graph, and what the others would have cost.

use std::cell::RefCell;
use std::collections::HashMap;

use nnburst_hal::{
    Capabilities, ExecutionPreference, Model, Operand, OperandType, Operation, OperationType,
    PerformanceInfo, Subgraph, Version, compliant_with, slice_for,
};

use super::graphs::{control_flow, operand, reference, referenced};
use crate::device::Device;
use crate::error::{Result, RuntimeError};

/// What the choice depends on.
#[derive(Debug)]
pub(super) struct Chooser<'a> {
    model: &'a Model,
    devices: &'a [Device],
    preference: ExecutionPreference,
    strict_slicing: bool,
    /// What a device asks for all operations of a referenced graph, by their places: graphs may refer to
    /// one another in more ways than could be walked.
    sums: RefCell<HashMap<(usize, usize), f32>>,
}

/// Who is to run an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// A device, by its place in the list.
    Device(usize),
    /// The interpreter of control flow: the graphs that the operation refers to are spread as well.
    Interpreter,
}

/// A device's bid for an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Bid {
    /// It takes the operation at this cost: time, or energy if the preference is low power; relative to
    /// the reference device.
    Cost(f32),
    /// It doesn't take it.
    Refused,
    /// It didn't answer: why.
    Silent(String),
    /// Operations of control flow with unknown sizes are for the reference device alone.
    UnknownSizes,
}

/// The choice for one operation.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) choice: Choice,
    /// One per device.
    pub(super) bids: Vec<Bid>,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(
        model: &'a Model,
        devices: &'a [Device],
        preference: ExecutionPreference,
        strict_slicing: bool,
    ) -> Self {
        Self { model, devices, preference, strict_slicing, sums: RefCell::default() }
    }

    /// Chooses for each operation of a graph of the model.
    ///
    /// # Errors
    /// [`RuntimeError::Model`] naming an operation that no device takes.
    pub(super) fn choose(&self, graph: &Subgraph) -> Result<Vec<Chosen>> {
        let answers = self.answers(graph)?;
        let operations = graph.operations.iter().enumerate();
        operations.map(|(at, operation)| self.choose_one(graph, at, operation, &answers)).collect()
    }

    fn choose_one(
        &self,
        graph: &Subgraph,
        at: usize,
        operation: &Operation,
        answers: &[std::result::Result<Vec<bool>, String>],
    ) -> Result<Chosen> {
        let is_control_flow = control_flow(operation).is_some();
        let open = is_control_flow && self.has_unknown_sizes(graph, operation);
        let mut bids = Vec::with_capacity(self.devices.len());
        for (place, (device, answer)) in self.devices.iter().zip(answers).enumerate() {
            bids.push(match answer {
                Err(why) => Bid::Silent(why.clone()),
                Ok(taken) if taken.get(at) != Some(&true) => Bid::Refused,
                Ok(_) if open && !device.is_reference() => Bid::UnknownSizes,
                Ok(_) => Bid::Cost(self.cost(place, device.figures()?, graph, operation)),
            });
        }
        let mut best: Option<(usize, f32)> = None;
        for (index, (device, bid)) in self.devices.iter().zip(&bids).enumerate() {
            let &Bid::Cost(cost) = bid else { continue };
            // Of equals the first counts, but the reference device wins: it costs no way.
            let better = best.is_none_or(|(_, least)| {
                cost < least || (device.is_reference() && cost.total_cmp(&least).is_le())
            });
            if better {
                best = Some((index, cost));
            }
        }
        let Some((index, _)) = best else {
            let kind = operation.kind;
            return Err(RuntimeError::Model(format!("no device takes operation {at}, {kind}")));
        };
        let interpreted =
            is_control_flow && !open && self.devices.get(index).is_some_and(Device::is_reference);
        let choice = if interpreted { Choice::Interpreter } else { Choice::Device(index) };
        Ok(Chosen { choice, bids })
    }

    /// What each device says of each operation of the graph.
    fn answers(&self, graph: &Subgraph) -> Result<Vec<std::result::Result<Vec<bool>, String>>> {
        let as_main;
        let model = if std::ptr::eq(graph, &raw const self.model.main) {
            self.model
        } else {
            as_main = Model { main: graph.clone(), ..self.model.clone() };
            &as_main
        };
        let ask = |device: &Device| {
            if self.strict_slicing && !can_be_sliced(model, device.version_of_hal()) {
                return Err(RuntimeError::Model(format!(
                    "no part of the model is valid for {} of {:?}",
                    device.name(),
                    device.version_of_hal()
                )));
            }
            Ok(device.supported_operations(model).map_err(|error| error.to_string()))
        };
        self.devices.iter().map(ask).collect()
    }

    /// What the device at `place` asks for an operation.
    fn cost(
        &self,
        place: usize,
        figures: &Capabilities,
        graph: &Subgraph,
        operation: &Operation,
    ) -> f32 {
        let sum = |index| self.sum(place, figures, reference(graph, index));
        match (operation.kind, operation.inputs.as_slice()) {
            (OperationType::If, &[_, yes, no, ..]) => {
                let figure = self.figure(figures.if_performance);
                0.5f32.mul_add(sum(yes) + sum(no), figure)
            }
            (OperationType::While, &[condition, body, ..]) => {
                self.figure(figures.while_performance) + sum(condition) + sum(body)
            }
            (_, inputs) => {
                let first = inputs.first().and_then(|&index| operand(graph, index));
                self.figure(self.performance(figures, first.map(|operand| operand.kind)))
            }
        }
    }

    /// What it asks for all operations of a referenced graph.
    fn sum(&self, place: usize, figures: &Capabilities, index: Option<usize>) -> f32 {
        let found = index.and_then(|index| Some((index, self.model.referenced.get(index)?)));
        let Some((index, graph)) = found else { return f32::MAX };
        let known = self.sums.borrow().get(&(place, index)).copied();
        known.unwrap_or_else(|| {
            let operations = graph.operations.iter();
            let sum = operations.map(|one| self.cost(place, figures, graph, one)).sum();
            self.sums.borrow_mut().insert((place, index), sum);
            sum
        })
    }

    fn figure(&self, info: PerformanceInfo) -> f32 {
        match self.preference {
            ExecutionPreference::LowPower => info.power_usage,
            ExecutionPreference::FastSingleAnswer | ExecutionPreference::SustainedSpeed => {
                info.exec_time
            }
        }
    }

    /// The figures for operations whose first input has this type.
    fn performance(&self, figures: &Capabilities, kind: Option<OperandType>) -> PerformanceInfo {
        let relaxed = self.model.relax_computation_float32_to_float16;
        match kind {
            Some(OperandType::Float32) if relaxed => figures.relaxed_float32_to_float16_scalar,
            Some(OperandType::TensorFloat32) if relaxed => {
                figures.relaxed_float32_to_float16_tensor
            }
            Some(kind) => lookup(figures, kind),
            None => PerformanceInfo::WORST,
        }
    }

    /// Whether the size of anything that goes in or out of control flow, or of the graphs that it
    /// refers to, is left for the execution to find.
    fn has_unknown_sizes(&self, graph: &Subgraph, operation: &Operation) -> bool {
        let unknown = |graph: &Subgraph, indexes: &[u32]| {
            let mut operands = indexes.iter().filter_map(|&index| operand(graph, index));
            operands.any(Operand::has_unspecified_dimensions)
        };
        unknown(graph, &operation.inputs)
            || unknown(graph, &operation.outputs)
            || operation.inputs.iter().take(3).any(|&index| {
                referenced(self.model, graph, index).is_some_and(|inner| {
                    unknown(inner, &inner.input_indexes) || unknown(inner, &inner.output_indexes)
                })
            })
    }
}

/// The figures of the first entry that is not below the type, as the reference looks them up; the worst
/// past the last.
pub(super) fn lookup(figures: &Capabilities, kind: OperandType) -> PerformanceInfo {
    let entries = &figures.operand_performance;
    let at = entries.partition_point(|entry| entry.kind < kind);
    match entries.get(at) {
        Some(entry) => entry.info,
        None => {
            tracing::warn!(target: "nnburst::compilation", "no performance figures for {kind}");
            PerformanceInfo::WORST
        }
    }
}

/// Whether what the version can express of the model, if anything, is a valid model.
fn can_be_sliced(model: &Model, version: Version) -> bool {
    let noncompliant = nnburst_hal::noncompliant_operations(model, version).len();
    compliant_with(model, version)
        || noncompliant == model.main.operations.len()
        || slice_for(model, version).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_builder::ModelBuilder;
    use crate::test_device::TestDevice;

    /// An addition that nobody reads: all that 1.0 can express of the model gives nothing.
    #[test]
    fn strict_slicing_refuses_a_part_that_is_no_model() {
        let mut graph = ModelBuilder::new();
        let [a, b] = [(); 2].map(|()| graph.input(Operand::float32([2])));
        graph.add(a, b).done();
        let largest = graph.maximum(a, b).done();
        graph.output(largest);
        let model = graph.build().unwrap();
        let old = TestDevice::new(Ok(nnburst_hal::CacheFiles::default()), false);
        let old =
            nnburst_hal::v1_0::upgrade(nnburst_hal::v1_0::downgrade(std::sync::Arc::new(old)));
        let devices = [Device::from_hal("old", old), Device::reference()];
        let choose = |strict| {
            let preference = ExecutionPreference::FastSingleAnswer;
            Chooser::new(&model, &devices, preference, strict).choose(&model.main)
        };
        let homes: Vec<_> = choose(false).unwrap().iter().map(|one| one.choice).collect();
        assert_eq!(homes, [Choice::Device(1); 2]);
        let refused = choose(true).unwrap_err().to_string();
        assert!(refused.contains("no part of the model is valid for old"), "{refused}");
    }
}
