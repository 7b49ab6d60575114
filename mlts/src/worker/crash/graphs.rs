//! c07 and c08: random graphs of the operations that the driver takes.
//!
//! Answers are compared with the reference device's by the tolerances of the conformance suites. A
//! graph that fails is made smaller while it still fails, and written as a conformance case.

use std::time::{Duration, Instant};

use nnburst::hal::{Model, Operand, OperationType};
use nnburst::{Device, ModelBuilder, PrepareOptions};
use nnburst_conformance::{Case, to_json};
use serde_json::{Value, json};

use super::part::{CrashPart, events};
use crate::data::{Loaded, Random};
use crate::protocol::CallMode;
use crate::worker::client::Prepared;
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::{Feed, Sequence};

/// Operations of one input and of two, over floats, that stay within what floats hold.
const UNARY: [OperationType; 8] = [
    OperationType::Relu,
    OperationType::Relu1,
    OperationType::Relu6,
    OperationType::Tanh,
    OperationType::Logistic,
    OperationType::Abs,
    OperationType::Neg,
    OperationType::Floor,
];
const BINARY: [OperationType; 5] = [
    OperationType::Add,
    OperationType::Mul,
    OperationType::Sub,
    OperationType::Maximum,
    OperationType::Minimum,
];
/// The longest time for making a failing graph smaller.
const SHRINKING: Duration = Duration::from_secs(30);

/// An operation of a graph: its kind, and which values it takes.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: OperationType,
    a: usize,
    b: usize,
}

/// A graph over values of one shape: value 0 and 1 are inputs, 2 a constant, then the nodes'.
#[derive(Clone, Debug)]
struct Graph {
    extent: u32,
    nodes: Vec<Node>,
    seed: u64,
}

/// The values in front of those of the nodes.
const GIVEN: usize = 3;

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let is_load = part.work.extra.get("what").is_some_and(|what| what == "load");
    let kinds = taken_kinds(part)?;
    if kinds.is_empty() {
        let why = "the driver takes none of the operations that random graphs are made of";
        return Err(Stopped::Skipped(why.to_owned()));
    }
    let only = part.work.extra.get("graph").and_then(|text| text.parse::<u64>().ok());
    let all = u64::try_from(part.work.count).unwrap_or(0);
    let numbers = only.map_or(0..all, |only| only..only.saturating_add(1));
    let mut done = 0;
    for number in numbers {
        // A driver that dies in this graph leaves its number behind.
        let value = json!({"seed": part.job.seed, "graph": number});
        super::part::note_case(value);
        let graph = Graph::random(part.job.seed, number, &kinds);
        if is_load {
            let Some(model) = graph.model() else { continue };
            drop(part.client.prepare(&model, part.pulse)?);
        } else if let Err(why) = attempt(part, &graph, number) {
            return Err(failure(part, graph, number, why));
        }
        done += 1;
    }
    Ok(events(done))
}

/// The operations that the driver takes, each asked for in a graph of its own.
fn taken_kinds(part: &CrashPart<'_>) -> Outcome<Vec<OperationType>> {
    let mut taken = Vec::new();
    for kind in UNARY.into_iter().chain(BINARY) {
        let graph = Graph { extent: 4, nodes: vec![Node { kind, a: 0, b: 1 }], seed: 1 };
        let Some(model) = graph.model() else { continue };
        let answer = part.pulse.during("supported operations", || part.client.supported(&model))?;
        if answer.iter().all(|&yes| yes) {
            taken.push(kind);
        }
    }
    Ok(taken)
}

impl Graph {
    /// Ten operations over up to 1000 values, or, in every third graph, up to 600 over a few.
    fn random(seed: u64, number: u64, kinds: &[OperationType]) -> Self {
        let mut random = Random(seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let is_long = number % 3 == 2;
        let count = if is_long { 60 + random.index(540) } else { 1 + random.index(10) };
        let extent = 1 + random.below(if is_long { 10 } else { 1000 });
        let nodes = (0..count).filter_map(|at| {
            let kind = *kinds.get(random.index(kinds.len()))?;
            let (a, b) = (random.index(at + GIVEN), random.index(at + GIVEN));
            Some(Node { kind, a, b })
        });
        let nodes = nodes.collect();
        Self { extent, nodes, seed: random.next() }
    }

    /// The graph as a model, whose outputs are the values that no operation takes.
    fn model(&self) -> Option<Model> {
        let shape = || Operand::float32([self.extent]);
        let mut graph = ModelBuilder::new();
        let mut values = vec![graph.input(shape()), graph.input(shape())];
        let mut random = Random(self.seed);
        let constant: Vec<f32> = (0..self.extent).map(|_| random.unit()).collect();
        values.push(graph.tensor_f32(vec![self.extent], &constant));
        let mut is_used = vec![false; self.nodes.len() + GIVEN];
        for node in &self.nodes {
            let (a, b) = (*values.get(node.a)?, *values.get(node.b)?);
            *is_used.get_mut(node.a)? = true;
            let made = if UNARY.contains(&node.kind) {
                graph.operation(node.kind, &[a], shape())
            } else {
                *is_used.get_mut(node.b)? = true;
                let none = graph.scalar_i32(0);
                let inputs = [a, b, none];
                let has_activation =
                    !matches!(node.kind, OperationType::Maximum | OperationType::Minimum);
                graph.operation(
                    node.kind,
                    inputs.get(..if has_activation { 3 } else { 2 })?,
                    shape(),
                )
            };
            values.push(made);
        }
        for (value, is_used) in values.iter().zip(is_used).skip(GIVEN) {
            if !is_used {
                graph.output(*value);
            }
        }
        graph.build().ok()
    }

    /// The graph without an operation; what took its value takes its first input.
    fn without(&self, at: usize) -> Self {
        let gone = at + GIVEN;
        let instead = self.nodes.get(at).map_or(0, |node| node.a);
        let moved = |value: usize| match value.cmp(&gone) {
            std::cmp::Ordering::Less => value,
            std::cmp::Ordering::Equal => instead,
            std::cmp::Ordering::Greater => value - 1,
        };
        let mut nodes = self.nodes.clone();
        nodes.remove(at);
        for node in &mut nodes {
            (node.a, node.b) = (moved(node.a), moved(node.b));
        }
        Self { nodes, ..self.clone() }
    }
}

/// Runs a graph on the driver and on the reference; what is wrong, in words.
fn attempt(part: &CrashPart<'_>, graph: &Graph, number: u64) -> Result<(), String> {
    let Some(case) = case_of(part, graph) else { return Ok(()) };
    let taken = part.client.supported(&case.model).map_err(|error| error.to_string())?;
    if !taken.iter().all(|&yes| yes) {
        return Ok(());
    }
    let loaded = Loaded { model: case.model.clone(), states: Vec::new(), origins: Vec::new() };
    let mode = CallMode::ALL
        .get(Random(number).index(CallMode::ALL.len()))
        .copied()
        .unwrap_or(CallMode::Sync);
    let named = |error: crate::worker::client::CallError| format!("{}: {error}", mode.name());
    let prepared = part.client.prepare(&case.model, part.pulse).map_err(named)?;
    let mut sequence = Sequence::new(&loaded, prepared.session(mode).map_err(named)?);
    let inputs = case.inputs.iter().map(|value| value.bytes.clone()).collect();
    let outputs = sequence.run(&Feed { inputs, steps: 1 }, part.pulse).map_err(named)?;
    for (at, bytes) in outputs.iter().enumerate() {
        let shape = case.outputs.get(at).map_or(&[][..], |output| &output.dimensions);
        case.compare(at, shape, bytes).map_err(|wrong| {
            // What one output should have, another may.
            let others = outputs.iter().enumerate().filter(|(other, _)| *other != at);
            let mut same = others.filter(|(_, other)| case.compare(at, shape, other).is_ok());
            let hint = same.next().map_or_else(String::new, |(other, _)| {
                format!("; output {other} has what output {at} should have")
            });
            format!("{}: {wrong}{hint}", mode.name())
        })?;
    }
    Ok(())
}

/// The graph with inputs, and the reference device's outputs. `None` where a value leaves the range
/// in which implementations agree.
fn case_of(part: &CrashPart<'_>, graph: &Graph) -> Option<Case> {
    const LARGEST: f32 = 1e6;
    let model = graph.model()?;
    let loaded = Loaded { model, states: Vec::new(), origins: Vec::new() };
    let inputs = loaded.random_inputs(graph.seed);
    let reference = Device::reference().compile(&loaded.model, PrepareOptions::default()).ok()?;
    let session = Prepared::Runtime(reference).session(CallMode::Sync).ok()?;
    let feed = Feed { inputs: inputs.clone(), steps: 1 };
    let outputs = Sequence::new(&loaded, session).run(&feed, part.pulse).ok()?;
    let values = outputs.iter().flat_map(|bytes| bytes.as_chunks::<4>().0);
    let mut floats = values.map(|bytes| f32::from_le_bytes(*bytes));
    let is_tame = floats.all(|value| value.abs() <= LARGEST);
    is_tame.then(|| Case::of_values("mlts/random", "graph", loaded.model.clone(), inputs, outputs))
}

/// The failure of the smallest graph that still fails.
fn failure(part: &CrashPart<'_>, mut graph: Graph, number: u64, mut why: String) -> Stopped {
    let before = graph.nodes.len();
    let begun = Instant::now();
    let mut at = graph.nodes.len();
    while at > 0 && begun.elapsed() < SHRINKING {
        at -= 1;
        if graph.nodes.len() == 1 {
            break;
        }
        let smaller = graph.without(at);
        if let Err(still) = attempt(part, &smaller, number) {
            (graph, why) = (smaller, still);
            at = at.min(graph.nodes.len());
        }
    }
    let case = case_of(part, &graph).map(|case| to_json("mlts/random", &[case]));
    let reason = format!(
        "graph {number} of seed {}: {why}; {} of {before} operations are left",
        part.job.seed,
        graph.nodes.len()
    );
    let detail = json!({"seed": part.job.seed, "graph": number, "conformance": case});
    Stopped::Failed(reason, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_valid_and_come_again_from_their_seeds() {
        let kinds: Vec<_> = UNARY.into_iter().chain(BINARY).collect();
        for number in 0..60 {
            let graph = Graph::random(7, number, &kinds);
            let model = graph.model().expect("a valid graph");
            assert_eq!(model.main.operations.len(), graph.nodes.len());
            let again = Graph::random(7, number, &kinds);
            assert_eq!(again.model().unwrap().main.operations, model.main.operations);
        }
    }

    #[test]
    fn a_graph_without_an_operation_is_still_one() {
        let kinds: Vec<_> = UNARY.into_iter().chain(BINARY).collect();
        let graph = Graph::random(7, 2, &kinds);
        for at in 0..graph.nodes.len().min(20) {
            let smaller = graph.without(at);
            assert_eq!(smaller.nodes.len() + 1, graph.nodes.len());
            assert!(smaller.model().is_some(), "without operation {at}");
        }
    }
}
