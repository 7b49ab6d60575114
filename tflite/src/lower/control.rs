//! IF and WHILE, whose graphs become graphs of the model; CALL_ONCE and variables with a name,
//! which become states.
//!
//! ```text
//!   WHILE ── graphs of the file ──► Import of each, with a graph of its own ──► Model::referenced
//!   VAR_HANDLE name, CALL_ONCE ASSIGN ──► initial;  READ ◄── state ◄── ASSIGN
//! ```

use nnburst_hal::{DataLocation, Operand, OperandLifeTime, OperandType, OperationType};

use super::import::{Initial, State};
use super::{Import, Lower, Lowered};
use crate::flatbuffer::Field;
use crate::schema::options::OptionsKind;
use crate::schema::{Builtin, Operator};

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
        const KIND: OptionsKind = OptionsKind::new(111, "VarHandleOptions");
        const CONTAINER: Field = Field::new(0, "VarHandleOptions.container");
        const NAME: Field = Field::new(1, "VarHandleOptions.shared_name");
        let options = op.options.of(KIND)?;
        let name = format!("{}/{}", options.text(CONTAINER)?, options.text(NAME)?);
        let &handle = op.outputs.first().ok_or("it gives no handle")?;
        self.handles.insert(handle, name);
        Ok(())
    }

    /// What the graph of a CALL_ONCE does: it gives variables constants to start with.
    fn initialise(&mut self, graph: usize) -> Lowered {
        let file = self.file;
        let graph = file.graphs.get(graph).ok_or_else(|| format!("there is no graph {graph}"))?;
        let mut inner = Import::new(file, graph);
        for op in &graph.operators {
            let code = &file.codes[op.code];
            match code.builtin {
                Builtin::VarHandle => inner.var_handle(op)?,
                Builtin::AssignVariable => {
                    let name = inner.variable_of(op)?;
                    let value = op.inputs.get(1).copied().flatten().ok_or("it assigns nothing")?;
                    let initial = inner.initial(value)?;
                    self.variables.entry(name).or_default().initial = Some(initial);
                }
                _ => return Err(format!("{} within it", code.name()).into()),
            }
        }
        Ok(())
    }

    /// A constant of the file as a variable's first value.
    fn initial(&self, index: usize) -> Lowered<Initial> {
        let tensor = &self.graph.tensors[index];
        let bytes = self.file.data(tensor).ok_or("a variable starts with no constant")?;
        let mut operand = crate::operand::operand_of(tensor)?;
        if operand.dimensions.is_empty() {
            operand.dimensions.push(1);
        }
        if operand.data_size() != Some(bytes.len()) {
            return Err(format!("tensor {:?} has {} bytes", tensor.name, bytes.len()).into());
        }
        Ok(Initial { operand, bytes: bytes.to_vec() })
    }
}

impl Lower<'_, '_> {
    /// CALL_ONCE, VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE.
    pub(super) fn variable(&mut self, builtin: Builtin) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(103, "CallOnceOptions");
        const GRAPH: Field = Field::new(0, "CallOnceOptions.init_subgraph_index");
        if self.import.depth > 0 {
            return Err("variables within another graph".into());
        }
        match builtin {
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
        let variable = self.import.variables.get(&name).cloned().unwrap_or_default();
        let value = match variable.value {
            Some(value) => value,
            None => {
                let initial = variable.initial;
                let initial =
                    initial.ok_or_else(|| format!("{name:?} is read before it has a value"))?;
                let input = initial.operand.with_lifetime(OperandLifeTime::SubgraphInput);
                let input = self.builder().add(input);
                let &tensor = self.op.outputs.first().ok_or("it gives nothing")?;
                self.import.states.push(State { tensor, input, name: Some(name.clone()) });
                self.import.variables.entry(name).or_default().value = Some(input);
                input
            }
        };
        self.bind(0, value)
    }

    /// IF: the condition, both graphs, and what they take.
    pub(super) fn conditional(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(92, "IfOptions");
        const THEN: Field = Field::new(0, "IfOptions.then_subgraph_index");
        const ELSE: Field = Field::new(1, "IfOptions.else_subgraph_index");
        let options = self.options(KIND)?;
        let condition = self.input(0)?;
        let mut inputs = vec![condition];
        for field in [THEN, ELSE] {
            inputs.push(self.referenced(options.int(field, 0)?)?);
        }
        self.call_graphs(OperationType::If, inputs, 1)
    }

    /// WHILE: both graphs and the loop's variables.
    pub(super) fn repeated(&mut self) -> Lowered {
        const KIND: OptionsKind = OptionsKind::new(93, "WhileOptions");
        const CONDITION: Field = Field::new(0, "WhileOptions.cond_subgraph_index");
        const BODY: Field = Field::new(1, "WhileOptions.body_subgraph_index");
        let options = self.options(KIND)?;
        let mut inputs = Vec::new();
        for field in [CONDITION, BODY] {
            inputs.push(self.referenced(options.int(field, 0)?)?);
        }
        self.call_graphs(OperationType::While, inputs, 0)
    }

    /// Adds the operation, whose further inputs are the operator's from `first` on.
    fn call_graphs(&mut self, kind: OperationType, mut inputs: Vec<u32>, first: usize) -> Lowered {
        for argument in first..self.op.inputs.len() {
            let index = self.tensor_index(argument)?;
            inputs.push(self.import.own_value(index)?);
        }
        let outputs = (0..self.op.outputs.len())
            .map(|result| self.own_output(result, false))
            .collect::<Lowered<Vec<u32>>>()?;
        self.emit(kind, &inputs, &outputs);
        Ok(())
    }

    /// The operand that refers to a graph of the file, which becomes one of the model.
    fn referenced(&mut self, index: i32) -> Lowered<u32> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let mut inner = self.import.nested(index)?;
        inner.builder.enter();
        let lowered = inner.lower_as_graph();
        let graph = inner.builder.leave(lowered.is_ok());
        self.import.builder = std::mem::take(&mut inner.builder);
        lowered?;
        let location = DataLocation { pool_index: 0, offset: graph, length: 0 };
        let operand = Operand::scalar(OperandType::Subgraph);
        let operand = operand.with_lifetime(OperandLifeTime::Subgraph);
        Ok(self.builder().add(Operand { location, ..operand }))
    }
}

impl Import<'_> {
    /// Lowers the graph with inputs and outputs of its own.
    fn lower_as_graph(&mut self) -> Lowered {
        let graph = self.graph;
        let mut inputs = Vec::new();
        for &index in &graph.inputs {
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
        self.lower_operators()?;
        let mut outputs = Vec::new();
        for &index in &graph.outputs {
            let value = self.own_value(index)?;
            outputs.push(self.as_output(value)?);
        }
        if !self.states.is_empty() {
            return Err("variables within a graph that an operator refers to".into());
        }
        self.builder.graph.input_indexes = inputs;
        self.builder.graph.output_indexes = outputs;
        Ok(())
    }
}
