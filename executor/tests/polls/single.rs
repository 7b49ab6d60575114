//! Models of a single operation, and the check that one is stopped at a poll.

use std::sync::atomic::Ordering;

use nnburst_executor::{CompileOptions, Control, Input, Output, Plan, RunError};
use nnburst_hal::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType as T, Operation,
    OperationType as Op, View, ViewMut,
};

use crate::{StopAt, WITHIN};

/// An operand of an operation.
#[derive(Clone)]
pub(crate) enum A {
    /// Zeros that come with the request.
    In(T, Vec<u32>),
    /// Numbers that come with the request.
    Of(Vec<u32>, fn(usize) -> f32),
    /// Zeros of the model.
    Zeros(T, Vec<u32>),
    I(i32),
    F(f32),
    B(bool),
    Ints(Vec<i32>),
    None(T),
}

pub(crate) fn f(dims: &[u32]) -> A {
    A::In(T::TensorFloat32, dims.to_vec())
}

pub(crate) fn of(kind: T, dims: &[u32]) -> A {
    A::In(kind, dims.to_vec())
}

pub(crate) fn constant(kind: T, dims: &[u32]) -> A {
    A::Zeros(kind, dims.to_vec())
}

/// A model of a single operation, and the bytes of its arguments.
pub(crate) struct Single {
    pub(crate) model: Model,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<usize>,
}

pub(crate) fn tensor(kind: T, dims: &[u32]) -> Operand {
    let operand = Operand::tensor(kind, dims.to_vec());
    let scale = match kind {
        T::TensorQuant8Asymm | T::TensorQuant8AsymmSigned => 0.5,
        T::TensorQuant16Symm => 1.0 / 2048.0,
        T::TensorInt32 | T::TensorFloat32 | T::TensorFloat16 | T::TensorBool8 => 0.0,
        _ => 0.25,
    };
    Operand { scale, ..operand }
}

fn bytes(operand: &Operand) -> usize {
    let elements: usize = operand.dimensions.iter().map(|&extent| extent as usize).product();
    elements * operand.kind.element_bytes().unwrap()
}

impl Single {
    pub(crate) fn new(kind: Op, operands: &[A], outputs: &[Operand]) -> Self {
        let mut made = Self { model: Model::default(), inputs: Vec::new(), outputs: Vec::new() };
        let inputs = operands.iter().map(|operand| made.add(operand)).collect();
        let from = u32::try_from(made.model.main.operands.len()).unwrap();
        for output in outputs {
            made.outputs.push(bytes(output).max(1 << 20));
            let output = output.clone().with_lifetime(OperandLifeTime::SubgraphOutput);
            made.model.main.operands.push(output);
        }
        let outputs: Vec<u32> = (from..).take(outputs.len()).collect();
        made.model.main.output_indexes.clone_from(&outputs);
        made.model.main.operations = vec![Operation { kind, inputs, outputs }];
        made
    }

    fn add(&mut self, operand: &A) -> u32 {
        let copied = OperandLifeTime::ConstantCopy;
        let (operand, value) = match operand {
            A::In(kind, dims) => {
                let operand = tensor(*kind, dims);
                let value = vec![0; bytes(&operand)];
                return self.input(operand, value);
            }
            A::Of(dims, value) => {
                let operand = tensor(T::TensorFloat32, dims);
                let count = bytes(&operand) / 4;
                let value = (0..count).flat_map(|at| value(at).to_le_bytes()).collect();
                return self.input(operand, value);
            }
            A::Zeros(kind, dims) => {
                let operand = tensor(*kind, dims);
                let value = vec![0; bytes(&operand)];
                (operand, value)
            }
            A::I(value) => (Operand::scalar(T::Int32), value.to_le_bytes().to_vec()),
            A::F(value) => (Operand::scalar(T::Float32), value.to_le_bytes().to_vec()),
            A::B(value) => (Operand::scalar(T::Bool), vec![u8::from(*value)]),
            A::Ints(values) => {
                let count = u32::try_from(values.len()).unwrap();
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                (tensor(T::TensorInt32, &[count]), bytes)
            }
            A::None(kind) => {
                let operand = Operand::tensor(*kind, vec![]);
                return self.push(operand.with_lifetime(OperandLifeTime::NoValue));
            }
        };
        let values = &mut self.model.operand_values;
        let location = DataLocation {
            pool_index: 0,
            offset: u32::try_from(values.len()).unwrap(),
            length: u32::try_from(value.len()).unwrap(),
        };
        values.extend(value);
        self.push(Operand { location, ..operand.with_lifetime(copied) })
    }

    fn input(&mut self, operand: Operand, value: Vec<u8>) -> u32 {
        let at = self.push(operand.with_lifetime(OperandLifeTime::SubgraphInput));
        self.model.main.input_indexes.push(at);
        self.inputs.push(value);
        at
    }

    fn push(&mut self, operand: Operand) -> u32 {
        let operands = &mut self.model.main.operands;
        operands.push(Operand { number_of_consumers: 1, ..operand });
        u32::try_from(operands.len() - 1).unwrap()
    }

    pub(crate) fn run(
        &self,
        options: &CompileOptions,
        control: &Control<'_>,
    ) -> Result<(), RunError> {
        let plan = Plan::compile(&self.model, options).map_err(RunError::from)?;
        let mut made: Vec<Vec<u8>> = self.outputs.iter().map(|&bytes| vec![0; bytes]).collect();
        let inputs: Vec<_> = self.inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
        let outputs: Vec<_> =
            made.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
        plan.session().run(&inputs, &outputs, control)
    }
}

pub(crate) fn sees_a_stop(what: &str, single: &Single) {
    for threads in [1, 2] {
        let stopping = StopAt::new(WITHIN);
        let options = CompileOptions { threads, ..CompileOptions::default() };
        let ran = single.run(&options, &stopping.control());
        let polls = stopping.polls.load(Ordering::Relaxed);
        assert_eq!(ran, Err(RunError::Stopped), "{what} on {threads} threads, {polls} polls");
        // The one that ended it is the last, but for what a thread looked at on its way out.
        let late = stopping.late.each_ref().map(|late| late.load(Ordering::Relaxed));
        assert!(late.iter().all(|&late| late <= 2), "{what} on {threads} threads, {late:?} late");
    }
}
