//! Why each operation goes where it goes, in words.

use std::fmt;

use nnburst_hal::{Model, OperationType};

use super::choose::{Bid, Choice};
use super::walk::{RawStep, Walk, graph_of};
use crate::device::Device;

/// The partitioning of a model over devices, with its reasons.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The devices asked, in order.
    pub devices: Vec<String>,
    /// Every operation, graph by graph as they are used.
    pub operations: Vec<Explained>,
    /// In the order of execution; a single one where one device takes all.
    pub steps: Vec<StepSummary>,
}

/// The device of one operation, with the reasons.
#[derive(Clone, Debug)]
pub struct Explained {
    /// `None` for the main graph, else the place of the referenced one.
    pub graph: Option<usize>,
    /// Its place in the graph.
    pub operation: usize,
    /// The operation's type.
    pub kind: OperationType,
    /// The device, by its place in [`Explanation::devices`]; `None` where control flow is
    /// interpreted, so that the graphs that it refers to are spread as well.
    pub device: Option<usize>,
    /// The bid of each device.
    pub bids: Vec<Bid>,
}

/// One step of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSummary {
    /// Its kind.
    pub kind: StepKind,
    /// The device of an execution, by its place in [`Explanation::devices`].
    pub device: Option<usize>,
    /// The graph it is of, as [`Explained::graph`].
    pub graph: Option<usize>,
    /// The operations it runs, by their places, in the order of execution.
    pub operations: Vec<usize>,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the interface's reference")]
pub enum StepKind {
    Execution,
    If,
    While,
    /// On at the step of this place.
    Goto(usize),
}

impl Explanation {
    pub(super) fn new(model: &Model, devices: &[Device], walk: &Walk) -> Self {
        let mut operations = Vec::new();
        for scope in &walk.scopes {
            let Some(graph) = graph_of(model, scope.graph) else { continue };
            for (at, (operation, chosen)) in graph.operations.iter().zip(&scope.chosen).enumerate()
            {
                operations.push(Explained {
                    graph: scope.graph,
                    operation: at,
                    kind: operation.kind,
                    device: match chosen.choice {
                        Choice::Device(device) => Some(device),
                        Choice::Interpreter => None,
                    },
                    bids: chosen.bids.clone(),
                });
            }
        }
        let graph = |scope: usize| walk.scopes.get(scope).and_then(|scope| scope.graph);
        let summary = |step: &RawStep| match step {
            RawStep::Execution { scope, device, operations } => StepSummary {
                kind: StepKind::Execution,
                device: Some(*device),
                graph: graph(*scope),
                operations: operations.clone(),
            },
            RawStep::If { scope, operation, .. } => StepSummary {
                kind: StepKind::If,
                device: None,
                graph: graph(*scope),
                operations: vec![*operation],
            },
            RawStep::While { scope, operation, .. } => StepSummary {
                kind: StepKind::While,
                device: None,
                graph: graph(*scope),
                operations: vec![*operation],
            },
            RawStep::Goto(target) => StepSummary {
                kind: StepKind::Goto(*target),
                device: None,
                graph: None,
                operations: Vec::new(),
            },
        };
        let steps = match walk.single_device() {
            Some(device) => vec![StepSummary {
                kind: StepKind::Execution,
                device: Some(device),
                graph: None,
                operations: (0..model.main.operations.len()).collect(),
            }],
            None => walk.steps.iter().map(summary).collect(),
        };
        let devices = devices.iter().map(|device| device.name().to_owned()).collect();
        Self { devices, operations, steps }
    }

    /// Returns whether one device takes all of the model.
    pub fn is_simple(&self) -> bool {
        self.steps.len() == 1
    }

    /// The name of a device, by its place.
    fn device(&self, at: usize) -> &str {
        self.devices.get(at).map_or("?", String::as_str)
    }

    /// Why an operation goes where it goes: `b 0.80, less than a 1.00; c refuses`.
    pub fn reason(&self, explained: &Explained) -> String {
        let chosen = explained.device.and_then(|at| explained.bids.get(at).map(|bid| (at, bid)));
        let mut parts = Vec::new();
        if let Some((at, bid)) = chosen {
            parts.push(format!("{} {bid}", self.device(at)));
        } else {
            parts.push("interpreted, its graphs are spread as well".to_owned());
        }
        for (at, bid) in explained.bids.iter().enumerate() {
            if Some(at) != explained.device {
                parts.push(format!("{} {bid}", self.device(at)));
            }
        }
        parts.join("; ")
    }
}

impl fmt::Display for Bid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost(cost) => write!(f, "asks {cost:.2}"),
            Self::InProcess(cost) => write!(f, "asks {cost:.2}, in this process"),
            Self::Refused => f.write_str("refuses"),
            Self::Silent(why) => write!(f, "doesn't answer: {why}"),
            Self::UnknownSizes => f.write_str("gets no control flow with unknown sizes"),
        }
    }
}

impl fmt::Display for Explanation {
    /// One line per operation, then one per step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for explained in &self.operations {
            let home = explained.device.map_or("the interpreter", |at| self.device(at));
            match explained.graph {
                None => write!(f, "operation {}", explained.operation)?,
                Some(graph) => write!(f, "graph {graph}, operation {}", explained.operation)?,
            }
            writeln!(f, ", {}: {home} ({})", explained.kind, self.reason(explained))?;
        }
        for (at, step) in self.steps.iter().enumerate() {
            write!(f, "step {at}: ")?;
            match (step.kind, step.device) {
                (StepKind::Execution, device) => {
                    let device = device.map_or("?", |at| self.device(at));
                    writeln!(f, "{device} runs operations {}", Runs(&step.operations))?;
                }
                (StepKind::If, _) => writeln!(f, "if, operation {}", Runs(&step.operations))?,
                (StepKind::While, _) => {
                    writeln!(f, "while, operation {}", Runs(&step.operations))?;
                }
                (StepKind::Goto(target), _) => writeln!(f, "go on at step {target}")?,
            }
        }
        Ok(())
    }
}

/// Numbers, those that follow each other as a range: `0 to 28, 30`.
struct Runs<'a>(&'a [usize]);

impl fmt::Display for Runs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|before, after| before.checked_add(1) == Some(*after));
        for (at, run) in runs.enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            match run {
                [first, second] => write!(f, "{first}, {second}")?,
                [first, .., last] => write!(f, "{first} to {last}")?,
                _ => run.iter().try_for_each(|only| write!(f, "{only}"))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(Runs(&[]).to_string(), "");
        assert_eq!(Runs(&[7]).to_string(), "7");
        assert_eq!(Runs(&[1, 2]).to_string(), "1, 2");
        assert_eq!(Runs(&[0, 1, 2, 3, 5, 8, 9, 10, 4]).to_string(), "0 to 3, 5, 8 to 10, 4");
    }
}
