//! The choice of the best device for each operation of a graph, and the cost of the others.
//!
//! Devices whose figures differ by no more than figures scatter by are equals, and equals never
//! split a model: of those that are as good as the best one, the operation goes to the one that
//! takes most of the graph.

use std::cell::RefCell;
use std::collections::HashMap;

use nnburst_hal::{
    Capabilities, ExecutionPreference, Model, Operand, OperandType, Operation, OperationType,
    PerformanceInfo, Subgraph, Version, compliant_with, slice_for,
};

use super::cost::{NOISE, crossing, nanoseconds};
use crate::device::Device;
use crate::error::{Result, RuntimeError};
use crate::graphs::{control_flow, operand, reference, referenced, uses_extensions};

/// The inputs of the choice.
#[derive(Debug)]
pub(super) struct Chooser<'a> {
    model: &'a Model,
    devices: &'a [Device],
    preference: ExecutionPreference,
    strict_slicing: bool,
    /// True if this process is left alone where a driver in another one takes all of the model.
    prefer_served: bool,
    /// The price of all operations of a referenced graph on a device, by their places: graphs may
    /// refer to one another in more ways than could be walked.
    sums: RefCell<HashMap<(usize, usize), Price>>,
}

/// The price of an operation on a device, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Price {
    /// Figures: what devices are compared by.
    cost: f32,
    /// Estimated nanoseconds: what plans are compared by.
    pub(super) time: f32,
}

impl Price {
    fn scaled(self, by: f32) -> Self {
        Self { cost: self.cost * by, time: self.time * by }
    }
}

impl std::ops::Add for Price {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cost: self.cost + other.cost, time: self.time + other.time }
    }
}

/// The device that is to run an operation.
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
    /// It takes the operation at this cost: time, or energy if the preference is low power;
    /// relative to the reference device.
    Cost(f32),
    /// It takes the operation at this cost, and runs in this process, where a driver in another one
    /// takes all of the model.
    InProcess(f32),
    /// It doesn't take it.
    Refused,
    /// It didn't answer: why.
    Silent(String),
    /// Operations of control flow with unknown sizes are for the reference device alone, unless
    /// their graphs have operations of extensions, of which it takes none.
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
        prefer_served: bool,
    ) -> Self {
        let sums = RefCell::default();
        Self { model, devices, preference, strict_slicing, prefer_served, sums }
    }

    /// The devices that operations may go to: all of them, or those in other processes alone, where
    /// one of these takes all of the model and that is preferred.
    ///
    /// # Errors
    /// A device gave no figures.
    pub(super) fn candidates(&self) -> Result<Vec<bool>> {
        let all = vec![true; self.devices.len()];
        if !self.prefer_served || self.devices.iter().all(Device::is_embedded) {
            return Ok(all);
        }
        let served: Vec<_> = self.devices.iter().map(|device| !device.is_embedded()).collect();
        let takes_all = self.takers_of_all(&self.bids(&self.model.main)?, &served);
        Ok(if takes_all.is_empty() { all } else { served })
    }

    /// The candidates that take every operation of a graph, the best one first.
    pub(super) fn takers_of_all(&self, bids: &[Vec<Bid>], candidates: &[bool]) -> Vec<usize> {
        let takes_all =
            |&at: &usize| bids.iter().all(|bids| matches!(bids.get(at), Some(Bid::Cost(_))));
        let mut ranked = self.ranked(bids, candidates);
        ranked.retain(takes_all);
        ranked
    }

    /// The candidates in the order in which equal ones are taken: those that take the most
    /// operations of a graph, and of these the ones that ask least for them; of equals the
    /// reference device, which costs no way, then the first.
    fn ranked(&self, bids: &[Vec<Bid>], candidates: &[bool]) -> Vec<usize> {
        let places = (0..self.devices.len()).filter(|&at| candidates.get(at) == Some(&true));
        let standing = |at: usize| {
            let costs = bids.iter().filter_map(|bids| match bids.get(at) {
                Some(&Bid::Cost(cost)) => Some(cost),
                _ => None,
            });
            let (taken, sum) = costs.fold((0usize, 0.0f32), |(n, sum), cost| (n + 1, sum + cost));
            (at, taken, sum, !self.devices.get(at).is_some_and(Device::is_reference))
        };
        let mut ranked: Vec<_> = places.map(standing).collect();
        ranked.sort_by(|one, other| {
            let (_, taken, sum, elsewhere) = *one;
            other.1.cmp(&taken).then(sum.total_cmp(&other.2)).then(elsewhere.cmp(&other.3))
        });
        ranked.into_iter().map(|(at, ..)| at).collect()
    }

    /// Chooses a candidate for each operation of a graph of the model.
    ///
    /// # Errors
    /// [`RuntimeError::Model`] naming an operation that no candidate takes.
    pub(super) fn choose(&self, graph: &Subgraph, candidates: &[bool]) -> Result<Vec<Chosen>> {
        let bids = self.bids(graph)?;
        let ranked = self.ranked(&bids, candidates);
        let operations = graph.operations.iter().enumerate().zip(bids);
        operations
            .map(|((at, operation), bids)| self.choose_one(graph, at, operation, bids, &ranked))
            .collect()
    }

    fn choose_one(
        &self,
        graph: &Subgraph,
        at: usize,
        operation: &Operation,
        mut bids: Vec<Bid>,
        ranked: &[usize],
    ) -> Result<Chosen> {
        let cost = |at: usize| match bids.get(at) {
            Some(&Bid::Cost(cost)) => Some(cost),
            _ => None,
        };
        let least = ranked.iter().filter_map(|&at| cost(at)).min_by(f32::total_cmp);
        // What is cheaper by no more than figures scatter by is as good as who takes more of the
        // model.
        let is_as_good = |&&at: &&usize| {
            least.zip(cost(at)).is_some_and(|(least, cost)| least >= (1.0 - NOISE) * cost)
        };
        let Some(&index) = ranked.iter().find(is_as_good) else {
            let kind = operation.kind;
            return Err(RuntimeError::Model(format!("no device takes operation {at}, {kind}")));
        };
        let chosen = self.devices.get(index);
        let interpreted = control_flow(operation).is_some()
            && !self.has_unknown_sizes(graph, operation)
            && chosen.is_some_and(Device::is_reference);
        if self.prefer_served && chosen.is_some_and(|device| !device.is_embedded()) {
            for (at, bid) in bids.iter_mut().enumerate() {
                if let &mut Bid::Cost(cost) = bid
                    && !ranked.contains(&at)
                    && self.devices.get(at).is_some_and(Device::is_embedded)
                {
                    *bid = Bid::InProcess(cost);
                }
            }
        }
        let choice = if interpreted { Choice::Interpreter } else { Choice::Device(index) };
        Ok(Chosen { choice, bids })
    }

    /// Returns each device's bid for each operation of a graph: by operations.
    ///
    /// # Errors
    /// A device gave no figures.
    pub(super) fn bids(&self, graph: &Subgraph) -> Result<Vec<Vec<Bid>>> {
        let answers = self.answers(graph)?;
        let bid = |at: usize, operation: &Operation, open: bool, place: usize| {
            let (Some(device), Some(answer)) = (self.devices.get(place), answers.get(place)) else {
                return Ok(Bid::Refused);
            };
            Ok(match answer {
                Err(why) => Bid::Silent(why.clone()),
                Ok(taken) if taken.get(at) != Some(&true) => Bid::Refused,
                Ok(_) if open && !device.is_reference() => Bid::UnknownSizes,
                Ok(_) => Bid::Cost(self.price(place, device.figures()?, graph, operation).cost),
            })
        };
        let operations = graph.operations.iter().enumerate();
        operations
            .map(|(at, operation)| {
                let open = control_flow(operation).is_some()
                    && self.has_unknown_sizes(graph, operation)
                    && !uses_extensions(self.model, graph, operation);
                (0..self.devices.len()).map(|place| bid(at, operation, open, place)).collect()
            })
            .collect()
    }

    /// Estimated nanoseconds of operations of a graph on the device at `place`, the way there and
    /// back included.
    pub(super) fn time(&self, place: usize, graph: &Subgraph, operations: &[usize]) -> f32 {
        let Some(device) = self.devices.get(place) else { return f32::MAX };
        let Ok(figures) = device.figures() else { return f32::MAX };
        let computed: f32 = operations
            .iter()
            .filter_map(|&at| graph.operations.get(at))
            .map(|operation| self.price(place, figures, graph, operation).time)
            .sum();
        computed + crossing(graph, operations, device.is_embedded())
    }

    /// Returns each device's answer for each operation of the graph.
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

    /// Returns the price of an operation on the device at `place`.
    fn price(
        &self,
        place: usize,
        figures: &Capabilities,
        graph: &Subgraph,
        operation: &Operation,
    ) -> Price {
        let estimate = nanoseconds(graph, operation);
        let own = |figure: f32| Price { cost: figure, time: figure * estimate };
        let sum = |index| self.sum(place, figures, reference(graph, index));
        match (operation.kind, operation.inputs.as_slice()) {
            (OperationType::If, &[_, yes, no, ..]) => {
                (sum(yes) + sum(no)).scaled(0.5) + own(self.figure(figures.if_performance))
            }
            (OperationType::While, &[condition, body, ..]) => {
                own(self.figure(figures.while_performance)) + sum(condition) + sum(body)
            }
            (_, inputs) => {
                let first = inputs.first().and_then(|&index| operand(graph, index));
                own(self.figure(self.performance(figures, first.map(|operand| operand.kind))))
            }
        }
    }

    /// Returns its price for all operations of a referenced graph.
    fn sum(&self, place: usize, figures: &Capabilities, index: Option<usize>) -> Price {
        let found = index.and_then(|index| Some((index, self.model.referenced.get(index)?)));
        let Some((index, graph)) = found else { return Price { cost: f32::MAX, time: f32::MAX } };
        let known = self.sums.borrow().get(&(place, index)).copied();
        known.unwrap_or_else(|| {
            let operations = graph.operations.iter();
            let prices = operations.map(|one| self.price(place, figures, graph, one));
            let sum = prices.fold(Price::default(), |sum, one| sum + one);
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

    /// Returns whether the size of anything that goes in or out of control flow, or of the graphs
    /// that it refers to, is left for the execution to find.
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

/// The figures of the first entry that is not below the type, as the reference looks them up; the
/// worst past the last.
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

/// Returns whether what the version can express of the model, if anything, is a valid model.
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
            Chooser::new(&model, &devices, preference, strict, false)
                .choose(&model.main, &[true; 2])
        };
        let homes: Vec<_> = choose(false).unwrap().iter().map(|one| one.choice).collect();
        assert_eq!(homes, [Choice::Device(1); 2]);
        let refused = choose(true).unwrap_err().to_string();
        assert!(refused.contains("no part of the model is valid for old"), "{refused}");
    }
}
