//! Operators that stand for graphs of the file: composites become what they are made of.

use super::import::State;
use super::{Import, Lower, Lowered};
use crate::flatbuffer::Field;
use crate::schema::options::OptionsKind;

/// Graphs within graphs; a file's may lead in circles.
pub(super) const MAX_DEPTH: usize = 8;

/// Operations that a file of nested graphs may become, and tensors that are looked at for them: a
/// graph without operators costs what its tensors do, each time that it is referred to.
const MAX_WORK: usize = 1 << 18;

impl Lower<'_, '_> {
    /// STABLEHLO_COMPOSITE: its decomposition, operator by operator.
    pub(super) fn composite(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(21, "StableHLOCompositeOptions");
        const GRAPH: Field =
            Field::new(1, "StableHLOCompositeOptions.decomposition_subgraph_index");
        let index = self.op.options_2.of(KIND)?.int(GRAPH, 0)?;
        self.inline(usize::try_from(index).unwrap_or(usize::MAX))
    }

    /// Lowers the operators of another graph in this one's place.
    fn inline(&mut self, index: usize) -> Lowered {
        let file = self.import.file;
        let graph = file.graphs.get(index).ok_or_else(|| format!("there is no graph {index}"))?;
        let arguments = self.op.inputs.len();
        if graph.inputs.len() != arguments || graph.outputs.len() != self.op.outputs.len() {
            return Err(format!("graph {index} has other inputs or outputs").into());
        }
        let inputs = (0..arguments).map(|at| self.passed(at)).collect::<Lowered<Vec<_>>>()?;
        let mut inner = self.import.nested(index, self.import.opens)?;
        inner.variables = std::mem::take(&mut self.import.variables);
        for (&tensor, input) in graph.inputs.iter().zip(inputs) {
            match input {
                Passed::Handle(name) => drop(inner.handles.insert(tensor, name)),
                Passed::Value(value) => inner.values[tensor] = Some(value),
            }
        }
        let lowered = inner.lower_operators().and_then(|()| {
            let result = |&output: &usize| match inner.handles.get(&output) {
                Some(name) => Ok(Passed::Handle(name.clone())),
                None => inner.value(output).map(Passed::Value),
            };
            graph.outputs.iter().map(result).collect::<Lowered<Vec<_>>>()
        });
        self.import.builder = std::mem::take(&mut inner.builder);
        self.import.variables = std::mem::take(&mut inner.variables);
        let outputs = lowered?;
        // Variables that the decomposition is the first to use.
        for state in std::mem::take(&mut inner.states) {
            let &tensor = self.op.outputs.first().ok_or("it gives nothing")?;
            if state.name.is_none() {
                return Err("a variable tensor within it".into());
            }
            self.import.states.push(State { tensor, ..state });
        }
        for (result, output) in outputs.into_iter().enumerate() {
            match output {
                Passed::Handle(name) => {
                    self.import.handles.insert(self.op.outputs[result], name);
                }
                Passed::Value(value) => self.bind(result, value)?,
            }
        }
        Ok(())
    }

    /// What an argument passes on.
    fn passed(&mut self, argument: usize) -> Lowered<Passed> {
        let index = self.tensor_index(argument)?;
        match self.import.handles.get(&index) {
            Some(name) => Ok(Passed::Handle(name.clone())),
            None => self.import.value(index).map(Passed::Value),
        }
    }
}

/// What goes into a graph or comes out of it.
#[derive(Debug)]
enum Passed {
    /// The handle of the variable with this name.
    Handle(String),
    /// The operand that holds the value.
    Value(u32),
}

impl<'a> Import<'a> {
    /// The import of another graph of the file, which goes on with this one's builder; one that
    /// `opens` has no shapes but those that follow from what it is given.
    pub(super) fn nested(&mut self, index: usize, opens: bool) -> Lowered<Self> {
        let file = self.file;
        let graphs = if opens { &file.opened } else { &file.graphs };
        let graph = graphs.get(index).ok_or_else(|| format!("there is no graph {index}"))?;
        if self.depth >= MAX_DEPTH {
            return Err("graphs within graphs lead too deep".into());
        }
        let entered = graph.tensors.len().saturating_add(1);
        self.builder.work = self.builder.work.saturating_add(entered);
        self.check_work()?;
        let mut inner = Import::new(file, graph);
        inner.options = self.options;
        inner.customs = self.customs;
        inner.depth = self.depth + 1;
        inner.opens = opens;
        inner.builder = std::mem::take(&mut self.builder);
        Ok(inner)
    }

    pub(super) fn check_work(&self) -> Lowered {
        match self.builder.work > MAX_WORK {
            true => Err("graphs within graphs become too many operations".into()),
            false => Ok(()),
        }
    }

    /// Lowers every operator of the graph.
    pub(super) fn lower_operators(&mut self) -> Lowered {
        let graph = self.graph;
        for op in &graph.operators {
            self.check_work()?;
            let name = self.file.codes[op.code].name();
            self.lower_one(op).map_err(|refusal| match refusal {
                super::Refusal::Unsupported(why) => format!("{name} within it: {why}").into(),
                broken @ super::Refusal::Format(_) => broken,
            })?;
        }
        Ok(())
    }
}
