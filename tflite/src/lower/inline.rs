//! Operators that stand for graphs of the file: composites become what they are made of.

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
        let inputs = (0..arguments).map(|at| self.input(at)).collect::<Lowered<Vec<u32>>>()?;
        let mut inner = self.import.nested(index, self.import.opens)?;
        for (&tensor, &input) in graph.inputs.iter().zip(&inputs) {
            inner.values[tensor] = Some(input);
        }
        let lowered = inner.lower_operators().and_then(|()| {
            graph.outputs.iter().map(|&output| inner.value(output)).collect::<Lowered<Vec<u32>>>()
        });
        let has_states = !inner.states.is_empty();
        self.import.builder = std::mem::take(&mut inner.builder);
        let outputs = lowered?;
        if has_states {
            return Err("variables within a composite".into());
        }
        for (result, output) in outputs.into_iter().enumerate() {
            self.bind(result, output)?;
        }
        Ok(())
    }
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
