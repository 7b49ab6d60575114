//! One execution of an imported model on the executor.

use nnburst_executor::{Control, Input, Output, Session};
use nnburst_hal::{View, ViewMut};
use nnburst_tflite::{Imported, TensorInfo};

/// Runs a model: its inputs and states in, its outputs and next states out.
pub(crate) fn run(
    session: &mut Session,
    imported: &Imported,
    inputs: &[&[u8]],
    states: &[Vec<u8>],
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let given = inputs.iter().copied().chain(states.iter().map(Vec::as_slice));
    let given: Vec<Input<'_>> = given.map(|bytes| Input::new(View::of(bytes))).collect();
    let sizes = imported.outputs.iter().map(|info: &TensorInfo| info.byte_len().unwrap());
    let mut outputs: Vec<Vec<u8>> =
        sizes.chain(states.iter().map(Vec::len)).map(|size| vec![0; size]).collect();
    let taken: Vec<Output<'_>> =
        outputs.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
    session.run(&given, &taken, &Control::default()).unwrap();
    drop(taken);
    let next = outputs.split_off(imported.outputs.len());
    (outputs, next)
}
