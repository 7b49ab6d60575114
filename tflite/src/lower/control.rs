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

    /// STABLEHLO_CASE: the graph whose number the index is; the last for what is no graph's number.
    ///
    /// ```text
    ///   IF index == 0 THEN graph 0 ELSE { IF index == 1 THEN graph 1 ELSE { .. graph n } }
    /// ```
    pub(super) fn case(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(23, "StablehloCaseOptions");
        const GRAPHS: Field = Field::new(0, "StablehloCaseOptions.branch_subgraph_indices");
        let graphs = self.op.options_2.of(KIND)?.ints(GRAPHS)?;
        let (&last, first) = graphs.split_last().ok_or("a case without graphs")?;
        // Of one graph alone, whatever the index.
        let first = if first.is_empty() { &graphs[..] } else { first };
        let index = self.input(0)?;
        self.choose(index, first, last)
    }

    /// Adds an IF, and within its second graph one for each further of `first`.
    fn choose(&mut self, index: u32, first: &[i32], last: i32) -> Lowered {
        let graphs: Vec<i32> = first.iter().copied().chain([last]).collect();
        let (mut call, values) = self.graph_call(1, &graphs)?;
        let types = |import: &Import<'_>, operands: &[u32]| -> Vec<Operand> {
            operands.iter().map(|&operand| import.builder.operand(operand).clone()).collect()
        };
        // Graphs beside one that goes on choosing take the index, too.
        let chosen = self.import.builder.operand(index).clone();
        let given = types(self.import, &values);
        let mut branches = Vec::new();
        for (at, &graph) in graphs.iter().enumerate() {
            call.unused = (at + 2 < graphs.len()).then(|| chosen.clone());
            branches.push(self.referenced(graph, &call, false)?);
        }
        let mut outputs = Vec::new();
        for result in 0..self.op.outputs.len() {
            outputs.push(self.own_output(result, false)?);
        }
        self.open_where_branches_differ(&branches, &outputs);
        outputs.extend(self.next_variables(&call));
        let results = types(self.import, &outputs);
        let mut rest = branches.pop().ok_or("a case without graphs")?;
        for (at, branch) in branches.into_iter().enumerate().rev() {
            let inner = at > 0;
            let takes_index = at + 2 < graphs.len();
            let (index, values, outputs) = if inner {
                self.builder().enter();
                let builder = self.builder();
                let mut input = |operand: &Operand| {
                    builder.add(operand.clone().with_lifetime(OperandLifeTime::SubgraphInput))
                };
                let index = input(&chosen);
                let values: Vec<u32> = given.iter().map(&mut input).collect();
                let output = |operand: &Operand| {
                    operand.clone().with_lifetime(OperandLifeTime::SubgraphOutput)
                };
                let outputs = results.iter().map(|operand| builder.add(output(operand)));
                (index, values, outputs.collect::<Vec<_>>())
            } else {
                (index, values.clone(), outputs.clone())
            };
            let number = i32::try_from(at).unwrap_or(i32::MAX);
            let number = self.builder().ints(&[number]);
            let condition = self.builder().temporary(OperandType::TensorBool8, vec![1]);
            self.emit(OperationType::Equal, &[index, number], &[condition]);
            let mut inputs = vec![condition, self.refer_to(branch), self.refer_to(rest)];
            inputs.extend(takes_index.then_some(index));
            inputs.extend(&values);
            self.emit(OperationType::If, &inputs, &outputs);
            if inner {
                let builder = self.builder();
                builder.graph.input_indexes = std::iter::once(index).chain(values).collect();
                builder.graph.output_indexes = outputs;
                rest = builder.leave(true);
            }
        }
        Ok(())
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
        let (call, values) = self.graph_call(usize::from(condition.is_some()), &graphs)?;
        let mut inputs: Vec<u32> = condition.into_iter().collect();
        let mut given = Vec::new();
        for (at, graph) in graphs.into_iter().enumerate() {
            let is_test = kind == OperationType::While && at == 0;
            let number = self.referenced(graph, &call, is_test)?;
            inputs.push(self.refer_to(number));
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
        outputs.extend(self.next_variables(&call));
        self.emit(kind, &inputs, &outputs);
        Ok(())
    }

    /// What graphs are given: the operator's inputs from the `first` on, and the variables with a
    /// name that they use; with the operands of both.
    fn graph_call(&mut self, first: usize, graphs: &[i32]) -> Lowered<(GraphCall, Vec<u32>)> {
        let (mut call, mut values) = (GraphCall::default(), Vec::new());
        for argument in first..self.op.inputs.len() {
            let index = self.tensor_index(argument)?;
            let handle = self.import.handles.get(&index).cloned();
            if handle.is_none() {
                values.push(self.import.own_value(index)?);
            }
            call.handles.push(handle);
        }
        for &graph in graphs {
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
        Ok((call, values))
    }

    /// The operands that the variables of a call have afterwards.
    fn next_variables(&mut self, call: &GraphCall) -> Vec<u32> {
        let mut next = Vec::new();
        for (name, operand) in call.names.iter().zip(&call.operands) {
            let operand = operand.clone().with_lifetime(OperandLifeTime::TemporaryVariable);
            let operand = self.builder().add(operand);
            self.import.variables.entry(name.clone()).or_default().value = Some(operand);
            next.push(operand);
        }
        next
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
            let merged = shapes.reduce(|a, b| match a.len() == b.len() {
                true => a.iter().zip(&b).map(|(&a, &b)| if a == b { a } else { 0 }).collect(),
                false => Vec::new(),
            });
            let Some(merged) = merged else { continue };
            builder.operand_mut(output).dimensions = merged;
        }
    }

    /// An operand that refers to a graph of the model.
    fn refer_to(&mut self, graph: u32) -> u32 {
        let location = DataLocation { pool_index: 0, offset: graph, length: 0 };
        let operand = Operand::scalar(OperandType::Subgraph);
        let operand = operand.with_lifetime(OperandLifeTime::Subgraph);
        self.builder().add(Operand { location, ..operand })
    }

    /// The number in the model of what becomes of a graph of the file.
    fn referenced(&mut self, index: i32, call: &GraphCall, is_test: bool) -> Lowered<u32> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let mut inner = self.import.nested(index)?;
        inner.shares_variables = true;
        inner.builder.enter();
        let lowered = inner.lower_as_graph(call, is_test);
        let graph = inner.builder.leave(lowered.is_ok());
        self.import.builder = std::mem::take(&mut inner.builder);
        lowered?;
        Ok(graph)
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
    /// An input before the others that the graph has no use for.
    unused: Option<Operand>,
}

impl Import<'_> {
    /// Lowers the graph with inputs and outputs of its own. One that is a test gives the condition
    /// of a loop alone, and changes no variable.
    fn lower_as_graph(&mut self, call: &GraphCall, is_test: bool) -> Lowered {
        let graph = self.graph;
        let unused = call.unused.clone().map(|it| it.with_lifetime(OperandLifeTime::SubgraphInput));
        let mut inputs: Vec<u32> =
            unused.map(|unused| self.builder.add(unused)).into_iter().collect();
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
