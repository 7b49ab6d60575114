//! Graphs of the file that operators refer to, which become graphs of the model; CALL_ONCE and
//! variables with a name, which become states.
//!
//! ```text
//!   IF, WHILE ── graphs of the file ──► an Import of each, with its graph ──► Model::referenced
//!   VAR_HANDLE name, CALL_ONCE ASSIGN ──► initial;  READ ◄── state ◄── ASSIGN
//! ```

use std::collections::{BTreeSet, HashMap};

use nnburst_hal::{DataLocation, Operand, OperandLifeTime, OperandType};

use super::import::{Initial, State};
use super::variables::{VariableSearch, variable_name};
use super::{Import, Lower, Lowered, Refusal};
use crate::schema::options::call_once;
use crate::schema::{Builtin, Operator, Tensor};

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
        match builtin {
            Builtin::CallOnce if self.import.depth > 0 => {
                Err("CALL_ONCE within another graph".into())
            }
            Builtin::CallOnce => {
                let graph = self.options(call_once::KIND)?.int(call_once::GRAPH, 0)?;
                self.import.initialise(usize::try_from(graph).unwrap_or(usize::MAX))
            }
            Builtin::VarHandle => self.import.var_handle(self.op),
            Builtin::ReadVariable => self.read_variable(),
            _ => {
                let name = self.import.variable_of(self.op)?;
                let value = self.input(1)?;
                if self.import.options.shared_variables {
                    self.share(&name, value)?;
                }
                self.import.variables.entry(name).or_default().value = Some(value);
                Ok(())
            }
        }
    }

    /// Makes a state of a variable that is assigned a value before it is read.
    fn share(&mut self, name: &str, value: u32) -> Lowered {
        let variable = self.import.variables.get(name).cloned().unwrap_or_default();
        if variable.value.is_some() {
            return Ok(());
        }
        let operand = variable.initial.map(|initial| initial.operand).unwrap_or_else(|| {
            let Operand { kind, dimensions, scale, zero_point, .. } = self.builder().operand(value);
            Operand::tensor(*kind, dimensions.clone()).with_quantization(*scale, *zero_point)
        });
        let tensor = self.tensor_index(1)?;
        if operand.data_size().is_none() {
            return Err(format!("variable {name:?} has no fixed shape").into());
        }
        let input = self.builder().add(operand.with_lifetime(OperandLifeTime::SubgraphInput));
        self.import.states.push(State { tensor, input, name: Some(name.to_owned()) });
        Ok(())
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

    /// What graphs are given: the operator's inputs from the `first` on, and the variables with a
    /// name that they use; with the operands of both.
    pub(super) fn graph_call(
        &mut self,
        first: usize,
        graphs: &[i32],
    ) -> Lowered<(GraphCall, Vec<u32>)> {
        let opens = self.import.opens;
        let (mut call, mut values) = (GraphCall { opens, ..GraphCall::default() }, Vec::new());
        for argument in first..self.op.inputs.len() {
            let index = self.tensor_index(argument)?;
            let handle = self.import.handles.get(&index).cloned();
            let mut shape = Vec::new();
            if handle.is_none() {
                let value = self.import.own_value(index)?;
                self.import.builder.dims(value).clone_into(&mut shape);
                values.push(value);
            }
            call.handles.push(handle);
            call.shapes.push(shape);
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
    pub(super) fn next_variables(&mut self, call: &GraphCall) -> Vec<u32> {
        let mut next = Vec::new();
        for (name, operand) in call.names.iter().zip(&call.operands) {
            let operand = operand.clone().with_lifetime(OperandLifeTime::TemporaryVariable);
            let operand = self.builder().add(operand);
            self.import.variables.entry(name.clone()).or_default().value = Some(operand);
            next.push(operand);
        }
        next
    }

    /// An operand that refers to a graph of the model.
    pub(super) fn refer_to(&mut self, graph: u32) -> u32 {
        let location = DataLocation { pool_index: 0, offset: graph, length: 0 };
        let operand = Operand::scalar(OperandType::Subgraph);
        let operand = operand.with_lifetime(OperandLifeTime::Subgraph);
        self.builder().add(Operand { location, ..operand })
    }

    /// The number in the model of what becomes of a graph of the file.
    pub(super) fn referenced(
        &mut self,
        index: i32,
        call: &GraphCall,
        is_test: bool,
    ) -> Lowered<u32> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let mut inner = self.import.nested(index, call.opens)?;
        inner.builder.enter();
        let lowered = inner.lower_as_graph(call, is_test);
        let graph = inner.builder.leave(lowered.is_ok());
        self.import.builder = std::mem::take(&mut inner.builder);
        lowered?;
        Ok(graph)
    }

    /// The graphs of a call, lowered with the shapes that follow from its arguments, whatever the
    /// file says; as the file has them where that is refused or leaves more open, which `open` says
    /// by false.
    pub(super) fn open_first<T>(
        &mut self,
        call: &mut GraphCall,
        open: impl Fn(&mut Self, &mut GraphCall) -> Lowered<(T, bool)>,
        as_is: impl Fn(&mut Self, &mut GraphCall) -> Lowered<T>,
    ) -> Lowered<T> {
        let (mark, shapes) = (self.import.mark(), call.shapes.clone());
        call.opens = true;
        let opened = open(self, call);
        match opened {
            Ok((graphs, true)) => return Ok(graphs),
            Ok((graphs, false)) if self.import.opens => return Ok(graphs),
            Err(Refusal::Format(error)) => return Err(error.into()),
            _ => {}
        }
        self.import.rewind(&mark);
        (call.opens, call.shapes) = (self.import.opens, shapes.clone());
        match (as_is(self, call), opened) {
            (Err(Refusal::Unsupported(_)), Ok(_)) => {
                self.import.rewind(&mark);
                (call.opens, call.shapes) = (true, shapes);
                open(self, call).map(|(graphs, _)| graphs)
            }
            (Err(Refusal::Unsupported(_)), Err(refusal)) => Err(refusal),
            (lowered, _) => lowered,
        }
    }

    /// Returns whether the file says that a graph takes the shapes of a call, and what it gives:
    /// with `is_loop` the same shapes.
    pub(super) fn keeps_shapes(&self, graph: i32, call: &GraphCall, is_loop: bool) -> bool {
        let index = usize::try_from(graph).unwrap_or(usize::MAX);
        let Some(graph) = self.import.file.graphs.get(index) else { return true };
        let is_fixed = |tensor: &Tensor| {
            !tensor.is_shape_open
                && ![&tensor.signature, &tensor.shape].iter().any(|it| it.contains(&0))
        };
        let keeps = |tensor: &Tensor, shape: &[u32]| {
            let is_scalar = tensor.is_scalar() && shape == [1];
            is_fixed(tensor) && (is_scalar || tensor.shape == shape)
        };
        let arguments = call.handles.iter().zip(&call.shapes).enumerate();
        let mut arguments = arguments.filter(|(_, (handle, _))| handle.is_none());
        let tensor = |indexes: &[usize], at: usize| Some(&graph.tensors[*indexes.get(at)?]);
        let takes = arguments.all(|(at, (_, shape))| {
            let given = is_loop.then(|| tensor(&graph.outputs, at)).flatten();
            let mut both = tensor(&graph.inputs, at).into_iter().chain(given);
            both.all(|tensor| keeps(tensor, shape))
        });
        takes && graph.outputs.iter().all(|&output| is_fixed(&graph.tensors[output]))
    }

    /// The shapes of what a graph of the model gives.
    pub(super) fn results_of(&self, graph: u32) -> impl Iterator<Item = &[u32]> {
        let graph = self.import.builder.referenced.get(graph as usize);
        graph.into_iter().flat_map(|graph| {
            let operands =
                graph.output_indexes.iter().filter_map(|&at| graph.operands.get(at as usize));
            operands.map(|operand| operand.dimensions.as_slice())
        })
    }
}

/// What graphs are given that an operator refers to.
#[derive(Debug, Default)]
pub(super) struct GraphCall {
    /// For each argument the variable that it is the handle of.
    pub(super) handles: Vec<Option<String>>,
    /// For each argument its extents, which inputs have that the file leaves open.
    pub(super) shapes: Vec<Vec<u32>>,
    /// True of graphs whose shapes in the file do not hold.
    pub(super) opens: bool,
    /// The variables that the graphs use, and the type of each.
    names: BTreeSet<String>,
    operands: Vec<Operand>,
    /// An input before the others that the graph has no use for.
    pub(super) unused: Option<Operand>,
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
            if tensor.is_shape_open {
                operand.dimensions = call.shapes.get(at).cloned().unwrap_or_default();
            } else if tensor.is_scalar() {
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
            let output = self.as_output(value)?;
            if is_test {
                self.builder.close(output);
            }
            outputs.push(output);
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
