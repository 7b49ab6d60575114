//! The way to the first wrong operation: every value of the model is made an output, and compared
//! with the reference device's in the order of the operations.
//!
//! With all values as outputs a driver can fuse nothing, so that a fault of a fusion goes away:
//! then no operation differs, which says as much.

use nnburst::Device;
use nnburst::hal::{Model, OperandLifeTime};

use super::accuracy::TIERS;
use super::pass::Pass;
use crate::data::Loaded;
use crate::evaluators::{ElementType, difference};
use crate::protocol::CallMode;
use crate::report::{Bisection, WrongValue};
use crate::worker::client::Client;
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::{Feed, Sequence};

/// The distance that floats of one operation may have, as a share of the largest one; quantised
/// values may be a step off.
const FLOATS: f64 = 1e-4;

/// Finds the first operation whose outputs differ from the reference device's.
pub(super) fn run(client: &Client, pass: &Pass<'_>) -> Outcome<Bisection> {
    // The reference device has NNAPI's operations alone, so that is the model to compare.
    let plain = if pass.loaded.uses_extension() {
        match Loaded::open(&pass.work.model, pass.work.relaxed, false) {
            Ok(plain) => Some(plain),
            Err(_) => {
                let why = "NNAPI's operations alone can't express the model";
                return Ok(Bisection { note: why.to_owned(), ..Bisection::default() });
            }
        }
    } else {
        None
    };
    let loaded = plain.as_ref().unwrap_or(pass.loaded);
    let opened = open(loaded);
    let taken = client.supported(&opened.loaded.model)?;
    if !taken.iter().all(|&yes| yes) {
        let why = "the driver takes a part of the model only";
        return Ok(Bisection { note: why.to_owned(), ..Bisection::default() });
    }
    let feed = match pass.work.model.cases.first() {
        Some(case) => Feed::of_case(case).map_err(Stopped::failed)?,
        None => Feed::random(loaded, 1),
    };
    let own = values(client, &opened.loaded, &feed, pass)?;
    let reference = Client::Runtime(Device::reference());
    let known = values(&reference, &opened.loaded, &feed, pass)?;
    let mut result = Bisection { compared: opened.values.len(), ..Bisection::default() };
    for value in &opened.values {
        let (Some(got), Some(want)) = (own.get(value.output), known.get(value.output)) else {
            continue;
        };
        let scale = difference(value.kind, want, want, 0.0).scale;
        let allowed = if value.kind.is_float() { FLOATS * scale.max(1e-3) } else { 1.0 };
        let found = difference(value.kind, got, want, allowed);
        let Some((index, expected, actual)) = found.first else { continue };
        let name = loaded.operation(value.operation).map(|(name, _)| name);
        result.operation = Some(value.operation);
        result.op = name.unwrap_or_default();
        result.source = loaded.origins.get(value.operation).cloned().unwrap_or_default();
        result.differ = found.differ;
        result.of = found.of;
        result.first = Some(WrongValue { output: value.which, index, expected, actual });
        return Ok(result);
    }
    "no operation differs where every value is an output".clone_into(&mut result.note);
    Ok(result)
}

/// A value of the model as an output.
#[derive(Clone, Copy, Debug)]
struct OpenValue {
    operation: usize,
    /// The position among the operation's outputs.
    which: usize,
    /// Position among the outputs that a caller gets.
    output: usize,
    kind: ElementType,
}

/// A model whose values are outputs.
struct Opened {
    loaded: Loaded,
    values: Vec<OpenValue>,
}

/// Makes an output of every value whose size is known; those that were outputs keep their places.
fn open(loaded: &Loaded) -> Opened {
    let mut loaded = loaded.clone();
    let model: &mut Model = &mut loaded.model;
    let mut places = Vec::new();
    for (number, operation) in model.main.operations.iter().enumerate() {
        for (which, &index) in operation.outputs.iter().enumerate() {
            let Some(operand) =
                usize::try_from(index).ok().and_then(|at| model.main.operands.get_mut(at))
            else {
                continue;
            };
            if operand.data_size().is_none_or(|size| size == 0) {
                continue;
            }
            if operand.lifetime == OperandLifeTime::TemporaryVariable {
                operand.lifetime = OperandLifeTime::SubgraphOutput;
                model.main.output_indexes.push(index);
            }
            let position = model.main.output_indexes.iter().position(|&known| known == index);
            let kind = ElementType::of_name(operand.kind.name());
            places.extend(position.map(|position| (number, which, position, kind)));
        }
    }
    // States are read by the sequence itself, and are no outputs of the caller's.
    let outputs = loaded.outputs();
    let values = places.into_iter().filter_map(|(operation, which, position, kind)| {
        let output = outputs.iter().position(|&known| known == position)?;
        Some(OpenValue { operation, which, output, kind })
    });
    let values = values.collect();
    Opened { loaded, values }
}

/// The outputs of the first step.
fn values(client: &Client, loaded: &Loaded, feed: &Feed, pass: &Pass<'_>) -> Outcome<Vec<Vec<u8>>> {
    let during = |error| Stopped::from(error).during("every value as an output");
    let prepared = client.prepare(&loaded.model, pass.pulse).map_err(during)?;
    let mut sequence = Sequence::new(loaded, prepared.session(CallMode::Sync).map_err(during)?);
    sequence.reset().map_err(during)?;
    sequence.write(feed, 0).map_err(during)?;
    sequence.call(pass.pulse).map_err(during)?;
    sequence.read().map_err(during)
}

/// Returns whether answers are so far off that the first wrong operation is worth looking for.
pub(super) fn is_worth_it(tier: &str) -> bool {
    TIERS.first().is_none_or(|best| tier != *best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ModelEntry;

    #[test]
    fn every_value_of_a_network_is_an_output_and_the_model_stays_valid() {
        let entry = ModelEntry { id: "mobilenet_v1_0.25_128".to_owned(), ..ModelEntry::default() };
        let loaded = Loaded::open(&entry, false, false).unwrap();
        let opened = open(&loaded);
        assert_eq!(opened.values.len(), loaded.model.main.operations.len());
        assert_eq!(opened.loaded.outputs().len(), opened.values.len());
        let model = &opened.loaded.model;
        nnburst::hal::validate_model(model, nnburst::hal::Version::V1_3).unwrap();
        let first = opened.values[0];
        assert_eq!((first.operation, first.which), (0, 0), "in the order of the operations");
    }
}
