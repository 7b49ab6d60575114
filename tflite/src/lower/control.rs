//! IF and WHILE, whose graphs become graphs of the model; CALL_ONCE and variables with a name,
//! which become states.
//!
//! ```text
//!   WHILE ── graphs of the file ──► Import of each, with a graph of its own ──► Model::referenced
//!   VAR_HANDLE name, CALL_ONCE ASSIGN ──► initial;  READ ◄── state ◄── ASSIGN
//! ```

use std::collections::{BTreeSet, HashMap};

use nnburst_hal::{DataLocation, Operand, OperandLifeTime, OperandType, OperationType};

use super::import::{Initial, State};
use super::variables::{VariableSearch, variable_name};
use super::{Import, Lower, Lowered};
use crate::flatbuffer::Field;
use crate::schema::options::OptionsKind;
use crate::schema::{Builtin, Operator};

/// Small files can ask for large first values; this is where it ends.
const MAX_FIRST_BYTES: usize = 1 << 24;

impl Import<'_> {
    /// The bytes that a state with a name starts with; `None` where it starts at zero.
    pub(crate) fn initial_of(&self, name: &str) -> Option<Vec<u8>> {
        let initial = self.variables.get(name)?.initial.as_ref()?;
        Some(initial.bytes.clone())
    }

    /// The name of the variable that a handle refers to.
    fn variable_of(&self, op: &Operator<'_>) -> Lowered<String> {
        let handle = op.inputs.first().copied().flatten();
        let name = handle.and_then(|handle| self.handles.get(&handle));
        name.cloned().ok_or_else(|| "its handle comes from no VAR_HANDLE".into())
    }

    /// VAR_HANDLE: the handle stands for a name from here on.
    fn var_handle(&mut self, op: &Operator<'_>) -> Lowered {
        let name = variable_name(op)?;
        let &handle = op.outputs.first().ok_or("it gives no handle")?;
        self.handles.insert(handle, name);
        Ok(())
    }

    /// What the graph of a CALL_ONCE does: it gives variables values to start with, constants or
    /// what follows from some.
    fn initialise(&mut self, graph: usize) -> Lowered {
        let file = self.file;
        let graph = file.graphs.get(graph).ok_or_else(|| format!("there is no graph {graph}"))?;
        let mut inner = Import::new(file, graph);
        let (mut computed, mut room) = (HashMap::new(), MAX_FIRST_BYTES);
        for op in &graph.operators {
            let code = &file.codes[op.code];
            match code.builtin {
                Builtin::VarHandle => inner.var_handle(op)?,
                Builtin::AssignVariable => {
                    let name = inner.variable_of(op)?;
                    let value = op.inputs.get(1).copied().flatten().ok_or("it assigns nothing")?;
                    let initial = inner.initial(value, &computed)?;
                    self.variables.entry(name).or_default().initial = Some(initial);
                }
                builtin => {
                    let value = inner.first_value(builtin, op, &computed);
                    let value = value.ok_or_else(|| format!("{} within it", code.name()))?;
                    room = room.checked_sub(value.bytes.len()).ok_or("its values are too large")?;
                    let &result = op.outputs.first().ok_or("it gives nothing")?;
                    computed.insert(result, value);
                }
            }
        }
        Ok(())
    }

    /// The extents and the bytes of what an operator makes of constants, where it only repeats or
    /// reshapes them.
    fn first_value(
        &self,
        builtin: Builtin,
        op: &Operator<'_>,
        computed: &HashMap<usize, FirstValue>,
    ) -> Option<FirstValue> {
        let tensor = |argument: usize| op.inputs.get(argument).copied().flatten();
        let known = |argument: usize| self.known_value(tensor(argument)?, computed);
        let repeated = |dims: usize, element: FirstValue| {
            let dims = self.ints(tensor(dims)?).ok()?;
            let dims: Option<Vec<u32>> = dims.iter().map(|&it| u32::try_from(it).ok()).collect();
            let dims = dims?;
            let count =
                dims.iter().try_fold(1usize, |count, &it| count.checked_mul(it as usize))?;
            let is_one = element.dims.iter().all(|&extent| extent == 1);
            let is_small = count.checked_mul(element.bytes.len())? <= MAX_FIRST_BYTES;
            (is_one && is_small).then(|| FirstValue { dims, bytes: element.bytes.repeat(count) })
        };
        match builtin {
            Builtin::Fill => repeated(0, known(1)?),
            Builtin::BroadcastTo => repeated(1, known(0)?),
            Builtin::ZerosLike => {
                let value = known(0)?;
                Some(FirstValue { bytes: vec![0; value.bytes.len()], ..value })
            }
            Builtin::Reshape | Builtin::ExpandDims | Builtin::Squeeze => {
                let result = &self.graph.tensors[*op.outputs.first()?];
                Some(FirstValue { dims: result.shape.clone(), ..known(0)? })
            }
            _ => None,
        }
    }

    /// A constant, of the file or computed.
    fn known_value(
        &self,
        index: usize,
        computed: &HashMap<usize, FirstValue>,
    ) -> Option<FirstValue> {
        let tensor = &self.graph.tensors[index];
        let own = || {
            let bytes = self.file.data(tensor)?.to_vec();
            Some(FirstValue { dims: tensor.shape.clone(), bytes })
        };
        computed.get(&index).cloned().or_else(own)
    }

    /// A constant as a variable's first value.
    fn initial(&self, index: usize, computed: &HashMap<usize, FirstValue>) -> Lowered<Initial> {
        let tensor = &self.graph.tensors[index];
        let value = self.known_value(index, computed);
        let FirstValue { dims, bytes } = value.ok_or("a variable starts with no constant")?;
        let mut operand = crate::operand::operand_of(tensor)?;
        operand.dimensions = if dims.is_empty() { vec![1] } else { dims };
        if operand.data_size() != Some(bytes.len()) {
            return Err(format!("tensor {:?} has {} bytes", tensor.name, bytes.len()).into());
        }
        Ok(Initial { operand, bytes })
    }
}

/// The value of a constant: without extents where it is a scalar.
#[derive(Clone, Debug)]
struct FirstValue {
    dims: Vec<u32>,
    bytes: Vec<u8>,
}

impl Lower<'_, '_> {
    /// CALL_ONCE, VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE.
    pub(super) fn variable(&mut self, builtin: Builtin) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(103, "CallOnceOptions");
        const GRAPH: Field = Field::new(0, "CallOnceOptions.init_subgraph_index");
        if self.import.depth > 0 && !self.import.shares_variables {
            return Err("variables within a composite".into());
        }
        match builtin {
            Builtin::CallOnce if self.import.depth > 0 => {
                Err("CALL_ONCE within another graph".into())
            }
            Builtin::CallOnce => {
                let graph = self.options(KIND)?.int(GRAPH, 0)?;
                self.import.initialise(usize::try_from(graph).unwrap_or(usize::MAX))
            }
            Builtin::VarHandle => self.import.var_handle(self.op),
            Builtin::ReadVariable => self.read_variable(),
            _ => {
                let name = self.import.variable_of(self.op)?;
                let value = self.input(1)?;
                self.import.variables.entry(name).or_default().value = Some(value);
                Ok(())
            }
        }
    }

    fn read_variable(&mut self) -> Lowered {
        let name = self.import.variable_of(self.op)?;
        let &tensor = self.op.outputs.first().ok_or("it gives nothing")?;
        let value = self.variable_value(&name, tensor)?;
        self.bind(0, value)
    }

    /// The operand that holds a variable's value by now: where none does, the variable becomes a
    /// state, which is told of as this tensor.
    fn variable_value(&mut self, name: &str, tensor: usize) -> Lowered<u32> {
        let variable = self.import.variables.get(name).cloned().unwrap_or_default();
        if let Some(value) = variable.value {
            return Ok(value);
        }
        let initial = variable.initial;
        let initial = initial.ok_or_else(|| format!("{name:?} is read before it has a value"))?;
        let input = initial.operand.with_lifetime(OperandLifeTime::SubgraphInput);
        let input = self.builder().add(input);
        self.import.states.push(State { tensor, input, name: Some(name.to_owned()) });
        self.import.variables.entry(name.to_owned()).or_default().value = Some(input);
        Ok(input)
    }

    /// IF: the condition, both graphs, and what they take.
    pub(super) fn conditional(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(92, "IfOptions");
        const THEN: Field = Field::new(0, "IfOptions.then_subgraph_index");
        const ELSE: Field = Field::new(1, "IfOptions.else_subgraph_index");
        let options = self.options(KIND)?;
        let condition = self.input(0)?;
        let graphs = [options.int(THEN, 0)?, options.int(ELSE, 0)?];
        self.call_graphs(OperationType::If, Some(condition), graphs)
    }

    /// STABLEHLO_CASE of two graphs: the first where the index is 0.
    pub(super) fn case(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(23, "StablehloCaseOptions");
        const GRAPHS: Field = Field::new(0, "StablehloCaseOptions.branch_subgraph_indices");
        let graphs = self.op.options_2.of(KIND)?.ints(GRAPHS)?;
        let &[first, second] = &graphs[..] else {
            return Err(format!("a case of {} graphs, not of two", graphs.len()).into());
        };
        let index = self.input(0)?;
        let zero = self.builder().ints(&[0]);
        let condition = self.builder().temporary(OperandType::TensorBool8, vec![1]);
        self.emit(OperationType::Equal, &[index, zero], &[condition]);
        self.call_graphs(OperationType::If, Some(condition), [first, second])
    }

    /// WHILE: both graphs and the loop's variables.
    pub(super) fn repeated(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(93, "WhileOptions");
        const CONDITION: Field = Field::new(0, "WhileOptions.cond_subgraph_index");
        const BODY: Field = Field::new(1, "WhileOptions.body_subgraph_index");
        let options = self.options(KIND)?;
        let graphs = [options.int(CONDITION, 0)?, options.int(BODY, 0)?];
        self.call_graphs(OperationType::While, None, graphs)
    }

    /// Adds the operation: the condition, if there is one, the graphs, the operator's other inputs,
    /// and last the variables with a name that the graphs use, which come back behind the results.
    fn call_graphs(
        &mut self,
        kind: OperationType,
        condition: Option<u32>,
        graphs: [i32; 2],
    ) -> Lowered {
        let first = usize::from(condition.is_some());
        let mut call = GraphCall::default();
        let mut values = Vec::new();
        for argument in first..self.op.inputs.len() {
            let index = self.tensor_index(argument)?;
            let handle = self.import.handles.get(&index).cloned();
            if handle.is_none() {
                values.push(self.import.own_value(index)?);
            }
            call.handles.push(handle);
        }
        for graph in graphs {
            let mut search = VariableSearch::new(self.import.file, &mut call.names);
            search.graph(usize::try_from(graph).unwrap_or(usize::MAX), &call.handles)?;
            // Graphs within graphs are searched at each of their levels.
            let work = &mut self.import.builder.work;
            *work = work.saturating_add(search.looked_at);
            self.import.check_work()?;
        }
        for name in &call.names {
            let &tensor = self.op.outputs.first().ok_or("it gives nothing")?;
            let value = self.variable_value(name, tensor)?;
            call.operands.push(self.import.builder.operand(value).clone());
            values.push(value);
        }
        let mut inputs: Vec<u32> = condition.into_iter().collect();
        let mut given = Vec::new();
        for (at, graph) in graphs.into_iter().enumerate() {
            let is_test = kind == OperationType::While && at == 0;
            let (operand, number) = self.referenced(graph, &call, is_test)?;
            inputs.push(operand);
            given.push(number);
        }
        inputs.extend(values);
        let mut outputs = Vec::new();
        for result in 0..self.op.outputs.len() {
            // A loop gives the handles back that it takes.
            let handle = call.handles.get(result).cloned().flatten();
            match handle.filter(|_| kind == OperationType::While) {
                Some(name) => {
                    self.import.handles.insert(self.op.outputs[result], name);
                }
                None => outputs.push(self.own_output(result, false)?),
            }
        }
        if kind == OperationType::If {
            self.open_where_branches_differ(&given, &outputs);
        }
        for (name, operand) in call.names.iter().zip(&call.operands) {
            let next = operand.clone().with_lifetime(OperandLifeTime::TemporaryVariable);
            let next = self.builder().add(next);
            self.import.variables.entry(name.clone()).or_default().value = Some(next);
            outputs.push(next);
        }
        self.emit(kind, &inputs, &outputs);
        Ok(())
    }

    /// Results have the shape of whichever branch is taken: what differs between them is open.
    fn open_where_branches_differ(&mut self, graphs: &[u32], outputs: &[u32]) {
        for (at, &output) in outputs.iter().enumerate() {
            let builder = &mut self.import.builder;
            let shapes = graphs.iter().filter_map(|&graph| {
                let graph = builder.referenced.get(graph as usize)?;
                let operand = *graph.output_indexes.get(at)? as usize;
                Some(graph.operands.get(operand)?.dimensions.clone())
            });
            let [a, b] = &shapes.collect::<Vec<_>>()[..] else { continue };
            let merged = match a.len() == b.len() {
                true => a.iter().zip(b).map(|(&a, &b)| if a == b { a } else { 0 }).collect(),
                false => Vec::new(),
            };
            builder.operand_mut(output).dimensions = merged;
        }
    }

    /// The operand that refers to a graph of the file, which becomes one of the model, and the
    /// graph's number there.
    fn referenced(&mut self, index: i32, call: &GraphCall, is_test: bool) -> Lowered<(u32, u32)> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let mut inner = self.import.nested(index)?;
        inner.shares_variables = true;
        inner.builder.enter();
        let lowered = inner.lower_as_graph(call, is_test);
        let graph = inner.builder.leave(lowered.is_ok());
        self.import.builder = std::mem::take(&mut inner.builder);
        lowered?;
        let location = DataLocation { pool_index: 0, offset: graph, length: 0 };
        let operand = Operand::scalar(OperandType::Subgraph);
        let operand = operand.with_lifetime(OperandLifeTime::Subgraph);
        Ok((self.builder().add(Operand { location, ..operand }), graph))
    }
}

/// What graphs are given that an operator refers to.
#[derive(Debug, Default)]
struct GraphCall {
    /// For each argument the variable that it is the handle of.
    handles: Vec<Option<String>>,
    /// The variables that the graphs use, and the type of each.
    names: BTreeSet<String>,
    operands: Vec<Operand>,
}

impl Import<'_> {
    /// Lowers the graph with inputs and outputs of its own. One that is a test gives the condition
    /// of a loop alone, and changes no variable.
    fn lower_as_graph(&mut self, call: &GraphCall, is_test: bool) -> Lowered {
        let graph = self.graph;
        let mut inputs = Vec::new();
        for (at, &index) in graph.inputs.iter().enumerate() {
            if let Some(name) = call.handles.get(at).cloned().flatten() {
                self.handles.insert(index, name);
                continue;
            }
            let tensor = &graph.tensors[index];
            let mut operand = self.own_operand(tensor)?;
            if tensor.is_scalar() {
                operand.dimensions.push(1);
            }
            let input = self.builder.add(operand.with_lifetime(OperandLifeTime::SubgraphInput));
            if self.values[index].replace(input).is_some() {
                return Err(format!("tensor {:?} is two inputs", tensor.name).into());
            }
            inputs.push(input);
        }
        let mut before = Vec::new();
        for (name, operand) in call.names.iter().zip(&call.operands) {
            let operand = operand.clone().with_lifetime(OperandLifeTime::SubgraphInput);
            let input = self.builder.add(operand);
            self.variables.entry(name.clone()).or_default().value = Some(input);
            before.push(input);
        }
        inputs.extend(&before);
        self.lower_operators()?;
        let mut outputs = Vec::new();
        for (at, &index) in graph.outputs.iter().enumerate() {
            if let Some(name) = self.handles.get(&index) {
                if call.handles.get(at).and_then(Option::as_ref) != Some(name) {
                    return Err(
                        format!("it gives the handle of {name:?} where it took none").into()
                    );
                }
                continue;
            }
            let value = self.own_value(index)?;
            outputs.push(self.as_output(value)?);
        }
        for (name, before) in call.names.iter().zip(before) {
            let value = self.variables.get(name).and_then(|variable| variable.value);
            let value = value.unwrap_or(before);
            match is_test {
                true if value != before => {
                    return Err(format!("a loop's condition changes {name:?}").into());
                }
                true => {}
                false => outputs.push(self.as_output(value)?),
            }
        }
        if !self.states.is_empty() {
            return Err("variables within a graph that an operator refers to".into());
        }
        self.builder.graph.input_indexes = inputs;
        self.builder.graph.output_indexes = outputs;
        Ok(())
    }
}
