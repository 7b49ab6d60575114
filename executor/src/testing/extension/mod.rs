//! The body of a fuzz target: operations of `dev.nnburst.tflite` with random tensors and values.

mod draft;
mod signatures;

use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::tflite_extension::{NAME, OPERATIONS};
use nnburst_hal::{
    Amounts, Budget, ExtensionCode, ExtensionNameAndPrefix, Model, Operand, OperandType, Operation,
    OperationType, Resource, View, ViewMut,
};

use self::draft::{Draft, kinds};
use self::signatures::{SIGNATURES, Signature};
use super::test_rng::TestRng;
use crate::{CompileOptions, Control, ExtensionRegistry, Input, Output, Plan, TfliteExecutor};

const PREFIX: u16 = 3;

/// Bytes that a model and its runs may take.
const MEMORY: u64 = 256 << 20;

/// An operation of the extension with one of the lists of tensors that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExtensionForm {
    /// The operation's number.
    pub number: u16,
    /// Which of its lists it is, from 0 on.
    pub form: usize,
}

/// Makes a model of one operation of the extension of the bytes, with tensors of random types and
/// shapes that may fit it, and values that nothing can be computed with here and there; compiles it
/// and runs it twice, inputs having changed in between. Anything but a panic or a fault will do.
///
/// Gives which operation it was, and whether a run computed something.
pub fn fuzz_extension(bytes: &[u8]) -> (ExtensionForm, bool) {
    let rng = &mut TestRng::of_bytes(bytes);
    let about = &OPERATIONS[rng.below(OPERATIONS.len())];
    let signatures: Vec<&Signature> = signatures_of(about.name).collect();
    let form = ExtensionForm { number: about.number, form: rng.below(signatures.len()) };
    let Some(signature) = signatures.get(form.form) else { return (form, false) };
    let rank = rng.between(signature.ranks.0, signature.ranks.1);
    let extent = |rng: &mut TestRng| if rng.once_in(16) { 0 } else { rng.between(1, 4) };
    let shape = (0..rank).map(|_| extent(rng)).collect();
    let filter = [rng.between(1, 3), rng.between(1, 3), rng.between(1, 20)];
    let kind = kinds().get(rng.below(13)).copied().unwrap_or(OperandType::TensorFloat32);
    let code = ExtensionCode { prefix: PREFIX, number: about.number };
    let operation =
        Operation { kind: OperationType::Extension(code), inputs: Vec::new(), outputs: Vec::new() };
    let mut draft =
        Draft { rng, model: Model::default(), inputs: Vec::new(), shape, kind, filter, operation };
    signature.inputs.chars().for_each(|letter| draft.input(letter));
    let options = about.options;
    options.iter().for_each(|option| draft.option(option.kind, options.len()));
    let scalars = i32::from(draft.rng.once_in(6)) * 0b101;
    draft.add(Operand::scalar(OperandType::Int32), scalars.to_le_bytes().to_vec(), true);
    signature.outputs.chars().for_each(|letter| draft.output(letter));
    let Draft { mut model, mut inputs, operation, rng, .. } = draft;
    model.main.operations.push(operation);
    let name = NAME.to_owned();
    model.extension_name_to_prefix = vec![ExtensionNameAndPrefix { name, prefix: PREFIX }];
    (form, run(&model, &mut inputs, rng))
}

fn signatures_of(name: &str) -> impl Iterator<Item = &'static Signature> {
    SIGNATURES.iter().filter(move |it| it.names.contains(&name))
}

/// All that [`fuzz_extension`] makes models of.
pub fn extension_forms() -> impl Iterator<Item = ExtensionForm> {
    OPERATIONS.iter().flat_map(|about| {
        let number = about.number;
        (0..signatures_of(about.name).count()).map(move |form| ExtensionForm { number, form })
    })
}

fn run(model: &Model, inputs: &mut [Vec<u8>], rng: &mut TestRng) -> bool {
    let mut extensions = ExtensionRegistry::default();
    extensions.register(NAME, Arc::new(TfliteExecutor));
    // As a driver's client has one: a few bytes of a model may ask for tables of gigabytes.
    let budget = Budget::root("fuzz", Amounts::UNLIMITED.with(Resource::Memory, MEMORY));
    let options = CompileOptions {
        arena_limit: 1 << 20,
        extensions,
        memory: Some(budget),
        ..CompileOptions::default()
    };
    let Ok(plan) = Plan::compile(model, &options) else { return false };
    let mut session = plan.session();
    let control = Control { loop_timeout: Duration::from_millis(5), ..Control::default() };
    let mut buffers = vec![vec![0xa5u8; 1 << 14]; model.main.output_indexes.len()];
    let mut computed = false;
    for _ in 0..2 {
        let graph = &model.main;
        let dimensions = graph.input_indexes.iter().filter_map(|&index| {
            graph.operands.get(index as usize).map(|operand| &operand.dimensions)
        });
        let given: Vec<Input<'_>> = inputs
            .iter()
            .zip(dimensions)
            .map(|(bytes, dimensions)| Input::Value { bytes: View::of(bytes), dimensions })
            .collect();
        let outputs: Vec<Output<'_>> =
            buffers.iter_mut().map(|buffer| Output::new(ViewMut::of(buffer))).collect();
        computed |= session.run(&given, &outputs, &control).is_ok();
        for value in inputs.iter_mut() {
            spoil(value, rng);
        }
    }
    computed
}

/// Puts a number that computations go wrong on somewhere into a value.
fn spoil(value: &mut [u8], rng: &mut TestRng) {
    const EDGES: [u32; 10] =
        [0, u32::MAX, 0x7fff_ffff, 0x8000_0000, 0x7f80_0000, 0x7fc0_0000, 1, 9, 1 << 20, 0xfffe];
    let at = rng.below(value.len() / 4) * 4;
    if let Some(element) = value.get_mut(at..at + 4) {
        element.copy_from_slice(&rng.one_of(&EDGES).to_le_bytes());
    } else if let Some(byte) = value.first_mut() {
        *byte = rng.one_of(&[0, 0x80, 0xff]);
    }
}
