//! Variables with a name that graphs within graphs use: they travel through the operators which
//! refer to those graphs.

use std::collections::{BTreeSet, HashMap};

use super::Lowered;
use super::inline::MAX_DEPTH;
use crate::flatbuffer::Field;
use crate::schema::options::OptionsKind;
use crate::schema::{Builtin, File, Operator};

/// Operators that a search looks at: graphs may refer to others many times over.
const MAX_SEARCH: usize = 1 << 16;
/// The name of the variable that a VAR_HANDLE stands for.
pub(super) fn variable_name(op: &Operator<'_>) -> Lowered<String> {
    const KIND: OptionsKind = OptionsKind::new(111, "VarHandleOptions");
    const CONTAINER: Field = Field::new(0, "VarHandleOptions.container");
    const NAME: Field = Field::new(1, "VarHandleOptions.shared_name");
    let options = op.options.of(KIND)?;
    Ok(format!("{}/{}", options.text(CONTAINER)?, options.text(NAME)?))
}

/// The variables that graphs read or assign, found before the graphs are lowered.
pub(super) struct VariableSearch<'s, 'a> {
    file: &'s File<'a>,
    names: &'s mut BTreeSet<String>,
    depth: usize,
    /// Operators and graphs so far.
    pub(super) looked_at: usize,
}

impl<'s, 'a> VariableSearch<'s, 'a> {
    pub(super) fn new(file: &'s File<'a>, names: &'s mut BTreeSet<String>) -> Self {
        Self { file, names, depth: 0, looked_at: 0 }
    }

    /// Those of a graph, some of whose inputs are handles.
    pub(super) fn graph(&mut self, index: usize, given: &[Option<String>]) -> Lowered {
        let Some(graph) = self.file.graphs.get(index) else { return Ok(()) };
        if self.depth >= MAX_DEPTH {
            return Err("graphs within graphs lead too deep".into());
        }
        self.looked_at = self.looked_at.saturating_add(graph.operators.len()).saturating_add(1);
        if self.looked_at > MAX_SEARCH {
            return Err("graphs within graphs become too many operations".into());
        }
        let inputs = graph.inputs.iter().zip(given);
        let known = inputs.filter_map(|(&index, name)| Some((index, name.clone()?)));
        let mut handles: HashMap<usize, String> = known.collect();
        for op in &graph.operators {
            let handle = |argument: usize| {
                let index = op.inputs.get(argument).copied().flatten()?;
                handles.get(&index).cloned()
            };
            match self.file.codes[op.code].builtin {
                Builtin::VarHandle => {
                    if let Some(&output) = op.outputs.first() {
                        handles.insert(output, variable_name(op)?);
                    }
                }
                Builtin::ReadVariable | Builtin::AssignVariable => self.names.extend(handle(0)),
                builtin @ (Builtin::If
                | Builtin::While
                | Builtin::StablehloCase
                | Builtin::StablehloComposite) => {
                    let chooses = matches!(builtin, Builtin::If | Builtin::StablehloCase);
                    let first = usize::from(chooses);
                    let given: Vec<_> = (first..op.inputs.len()).map(handle).collect();
                    self.referenced(op, builtin, &given)?;
                    if builtin == Builtin::While {
                        let back = op.outputs.iter().zip(given);
                        handles.extend(back.filter_map(|(&index, name)| Some((index, name?))));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn referenced(
        &mut self,
        op: &Operator<'_>,
        builtin: Builtin,
        given: &[Option<String>],
    ) -> Lowered {
        self.depth += 1;
        for graph in graphs_of(op, builtin)? {
            self.graph(usize::try_from(graph).unwrap_or(usize::MAX), given)?;
        }
        self.depth -= 1;
        Ok(())
    }
}

/// The numbers of the graphs that an operator refers to.
fn graphs_of(op: &Operator<'_>, builtin: Builtin) -> Lowered<Vec<i32>> {
    const FIRST: Field = Field::new(0, "Operator.builtin_options");
    const SECOND: Field = Field::new(1, "Operator.builtin_options");
    let both = |number: u8| {
        let options = op.options.of(OptionsKind::new(number, "Operator.builtin_options"))?;
        Ok(vec![options.int(FIRST, 0)?, options.int(SECOND, 0)?])
    };
    match builtin {
        Builtin::If => both(92),
        Builtin::While => both(93),
        Builtin::StablehloCase => {
            let options = op.options_2.of(OptionsKind::new(23, "StablehloCaseOptions"))?;
            Ok(options.ints(FIRST)?)
        }
        _ => {
            let options = op.options_2.of(OptionsKind::new(21, "StableHLOCompositeOptions"))?;
            Ok(vec![options.int(SECOND, 0)?])
        }
    }
}
