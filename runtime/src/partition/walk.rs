//! From the choice of a device for each operation to steps in the order of execution.
//!
//! The plan is flat. Each use of a graph is a *scope* of its own, because a graph may be referred
//! to from several places:
//!
//! ```text
//!   IF      if    then-steps  goto end   else-steps
//!   WHILE   while condition-steps  goto while   body-steps  goto while
//! ```

use std::collections::VecDeque;

use nnburst_hal::{HalError, Model, OperandLifeTime, Subgraph};

use super::choose::{Choice, Chooser, Chosen};
use crate::error::Result;
use crate::graphs::{ControlFlow, control_flow, is_computed, operand, reference};

/// One use of a graph.
#[derive(Debug)]
pub(super) struct Scope {
    /// `None` for the main graph, else its place in [`Model::referenced`].
    pub(super) graph: Option<usize>,
    /// One per operation.
    pub(super) chosen: Vec<Chosen>,
    /// The expected number of runs: a branch every other time, a loop once.
    weight: f32,
}

/// An operand of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ScopedOperand {
    pub(super) scope: usize,
    pub(super) operand: u32,
}

/// A step, as yet without models. Steps are told by their places in the list.
#[derive(Debug)]
pub(super) enum RawStep {
    Execution {
        scope: usize,
        device: usize,
        operations: Vec<usize>,
    },
    If {
        scope: usize,
        operation: usize,
        branches: [usize; 2],
        otherwise: usize,
    },
    While {
        scope: usize,
        operation: usize,
        condition: usize,
        body: usize,
        body_at: usize,
        exit: usize,
    },
    Goto(usize),
}

/// The steps of a model and the scopes they are in.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) scopes: Vec<Scope>,
    pub(super) steps: Vec<RawStep>,
}

/// Uses of graphs beyond which nobody interprets: every use is planned for itself.
const MOST_SCOPES: usize = 1024;

impl Walk {
    /// Walks a valid model. Where the best devices for its operations are several, and one device
    /// takes all of it in no more time than they need with the ways between them, that device gets
    /// it.
    pub(super) fn of(model: &Model, chooser: &Chooser<'_>) -> Result<Self> {
        let candidates = chooser.candidates()?;
        let spread = Self::among(model, chooser, &candidates)?;
        if spread.single_device().is_some() {
            return Ok(spread);
        }
        let best = chooser.takers_of_all(&chooser.bids(&model.main)?, &candidates).first().copied();
        let Some(best) = best else { return Ok(spread) };
        let alone: Vec<_> = (0..candidates.len()).map(|at| at == best).collect();
        match Self::among(model, chooser, &alone) {
            Ok(whole) if whole.time(model, chooser) <= spread.time(model, chooser) => Ok(whole),
            _ => Ok(spread),
        }
    }

    /// Walks the main graph, and all that control flow on the interpreter refers to.
    fn among(model: &Model, chooser: &Chooser<'_>, candidates: &[bool]) -> Result<Self> {
        let mut walk = Self::default();
        let chosen = chooser.choose(&model.main, candidates)?;
        walk.scopes.push(Scope { graph: None, chosen, weight: 1.0 });
        if walk.single_device().is_none() {
            walk.plan(model, chooser, candidates, 0)?;
        }
        Ok(walk)
    }

    /// Estimated nanoseconds of all steps.
    fn time(&self, model: &Model, chooser: &Chooser<'_>) -> f32 {
        if let Some(device) = self.single_device() {
            let all: Vec<_> = (0..model.main.operations.len()).collect();
            return chooser.time(device, &model.main, &all);
        }
        let time = |step: &RawStep| {
            let RawStep::Execution { scope, device, operations } = step else { return None };
            let scope = self.scopes.get(*scope)?;
            let graph = graph_of(model, scope.graph)?;
            Some(scope.weight * chooser.time(*device, graph, operations))
        };
        self.steps.iter().filter_map(time).sum()
    }

    /// The device that takes all of the main graph, if one does.
    pub(super) fn single_device(&self) -> Option<usize> {
        let mut choices = self.scopes.first()?.chosen.iter().map(|chosen| chosen.choice);
        let first = choices.next()?;
        match first {
            Choice::Device(device) if choices.all(|choice| choice == first) => Some(device),
            _ => None,
        }
    }

    fn enter(
        &mut self,
        model: &Model,
        chooser: &Chooser<'_>,
        candidates: &[bool],
        graph: Option<usize>,
        weight: f32,
    ) -> Result<usize> {
        if self.scopes.len() >= MOST_SCOPES {
            let why = format!("graphs are referred to in more than {MOST_SCOPES} places");
            return Err(HalError::failure(why).into());
        }
        let inner = graph.and_then(|index| model.referenced.get(index));
        let inner =
            inner.ok_or_else(|| HalError::invalid("a graph that is referred to is missing"))?;
        let chosen = chooser.choose(inner, candidates)?;
        self.scopes.push(Scope { graph, chosen, weight });
        let scope = self.scopes.len() - 1;
        self.plan(model, chooser, candidates, scope)?;
        Ok(scope)
    }

    fn plan(
        &mut self,
        model: &Model,
        chooser: &Chooser<'_>,
        candidates: &[bool],
        scope: usize,
    ) -> Result<()> {
        let graph = graph_of(model, self.scopes.get(scope).and_then(|scope| scope.graph));
        let Some(graph) = graph else { return Ok(()) };
        let choices: Vec<_> =
            self.scopes[scope].chosen.iter().map(|chosen| chosen.choice).collect();
        let mut ready = Ready::new(graph, &choices);
        while let Some((choice, mut operations)) = ready.next_queue() {
            match choice {
                Choice::Device(device) => {
                    let mut taken = Vec::new();
                    while let Some(operation) = operations.pop_front() {
                        taken.push(operation);
                        ready.done(graph, operation, &choices);
                        operations.append(&mut ready.take(choice));
                    }
                    self.steps.push(RawStep::Execution { scope, device, operations: taken });
                }
                Choice::Interpreter => {
                    for operation in operations {
                        self.interpret(model, chooser, candidates, scope, graph, operation)?;
                        ready.done(graph, operation, &choices);
                    }
                }
            }
        }
        Ok(())
    }

    fn interpret(
        &mut self,
        model: &Model,
        chooser: &Chooser<'_>,
        candidates: &[bool],
        scope: usize,
        graph: &Subgraph,
        at: usize,
    ) -> Result<()> {
        let weight = self.scopes.get(scope).map_or(1.0, |scope| scope.weight);
        let Some(operation) = graph.operations.get(at) else { return Ok(()) };
        let input = |position: usize| {
            operation.inputs.get(position).and_then(|&index| reference(graph, index))
        };
        let start = self.steps.len();
        // Replaced below, once the places behind it are known.
        self.steps.push(RawStep::Goto(start));
        match control_flow(operation) {
            Some(ControlFlow::If) => {
                let yes = self.enter(model, chooser, candidates, input(1), 0.5 * weight)?;
                let leave = self.steps.len();
                self.steps.push(RawStep::Goto(leave));
                let otherwise = self.steps.len();
                let no = self.enter(model, chooser, candidates, input(2), 0.5 * weight)?;
                self.steps[leave] = RawStep::Goto(self.steps.len());
                self.steps[start] =
                    RawStep::If { scope, operation: at, branches: [yes, no], otherwise };
            }
            Some(ControlFlow::While) => {
                let condition = self.enter(model, chooser, candidates, input(0), weight)?;
                self.steps.push(RawStep::Goto(start));
                let body_at = self.steps.len();
                let body = self.enter(model, chooser, candidates, input(1), weight)?;
                self.steps.push(RawStep::Goto(start));
                let exit = self.steps.len();
                self.steps[start] =
                    RawStep::While { scope, operation: at, condition, body, body_at, exit };
            }
            None => {
                return Err(HalError::failure("only control flow is interpreted").into());
            }
        }
        Ok(())
    }
}

/// The graph of a scope.
pub(super) fn graph_of(model: &Model, graph: Option<usize>) -> Option<&Subgraph> {
    match graph {
        None => Some(&model.main),
        Some(index) => model.referenced.get(index),
    }
}

/// The operations whose inputs are there, in one queue for each device and one for the interpreter.
struct Ready {
    devices: Vec<VecDeque<usize>>,
    interpreter: VecDeque<usize>,
    /// For each operation, how many of its inputs are not computed yet.
    missing: Vec<usize>,
    /// For each operand, the operations that read it, in their order, once per reading.
    readers: Vec<Vec<usize>>,
}

impl Ready {
    fn new(graph: &Subgraph, choices: &[Choice]) -> Self {
        let most = choices.iter().filter_map(|choice| match choice {
            Choice::Device(device) => Some(*device),
            Choice::Interpreter => None,
        });
        let count = most.max().map_or(0, |most| most + 1);
        let mut ready = Self {
            devices: vec![VecDeque::new(); count],
            interpreter: VecDeque::new(),
            missing: vec![0; graph.operations.len()],
            readers: vec![Vec::new(); graph.operands.len()],
        };
        for (at, operation) in graph.operations.iter().enumerate() {
            for &index in &operation.inputs {
                if operand(graph, index).is_some_and(is_computed) {
                    ready.missing[at] += 1;
                    if let Some(readers) =
                        usize::try_from(index).ok().and_then(|index| ready.readers.get_mut(index))
                    {
                        readers.push(at);
                    }
                }
            }
            if ready.missing[at] == 0 {
                ready.enqueue(at, choices);
            }
        }
        ready
    }

    fn enqueue(&mut self, operation: usize, choices: &[Choice]) {
        match choices.get(operation) {
            Some(&Choice::Device(device)) => {
                if let Some(queue) = self.devices.get_mut(device) {
                    queue.push_back(operation);
                }
            }
            Some(Choice::Interpreter) => self.interpreter.push_back(operation),
            None => {}
        }
    }

    /// The interpreter first, then the devices from the last to the first: those in front, which
    /// are preferred, then find more of their inputs made.
    fn next_queue(&mut self) -> Option<(Choice, VecDeque<usize>)> {
        if !self.interpreter.is_empty() {
            return Some((Choice::Interpreter, std::mem::take(&mut self.interpreter)));
        }
        let at = self.devices.iter().rposition(|queue| !queue.is_empty())?;
        Some((Choice::Device(at), self.take(Choice::Device(at))))
    }

    fn take(&mut self, choice: Choice) -> VecDeque<usize> {
        match choice {
            Choice::Device(device) => {
                self.devices.get_mut(device).map(std::mem::take).unwrap_or_default()
            }
            Choice::Interpreter => std::mem::take(&mut self.interpreter),
        }
    }

    fn done(&mut self, graph: &Subgraph, operation: usize, choices: &[Choice]) {
        let Some(operation) = graph.operations.get(operation) else { return };
        for &output in &operation.outputs {
            let index = usize::try_from(output).unwrap_or(usize::MAX);
            let readers = self.readers.get(index).cloned().unwrap_or_default();
            for reader in readers {
                self.missing[reader] -= 1;
                if self.missing[reader] == 0 {
                    self.enqueue(reader, choices);
                }
            }
        }
    }
}

/// Returns whether an operand has a value that moves between steps: not so graphs and what is left
/// out.
pub(super) fn has_value(graph: &Subgraph, index: u32) -> bool {
    operand(graph, index).is_some_and(|operand| {
        !matches!(operand.lifetime, OperandLifeTime::Subgraph | OperandLifeTime::NoValue)
    })
}

#[cfg(test)]
mod tests;
