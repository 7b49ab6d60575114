//! A sum of two vectors through crates that were written against Android's library.

use nnapi::{Burst, Compilation, Model, Operand};
use nnapi_sys::{OperandCode, OperationCode};

fn sum() -> Compilation {
    let vector = Operand::tensor(OperandCode::ANEURALNETWORKS_TENSOR_FLOAT32, vec![3], 0.0, 0);
    let operands = [vector.clone(), vector.clone(), Operand::activation(), vector];
    let mut model = Model::from_operands(operands).unwrap();
    model.set_activation_operand_value(2).unwrap();
    model.add_operation(OperationCode::ANEURALNETWORKS_ADD, &[0, 1, 2], &[3]).unwrap();
    model.identify_inputs_and_outputs(&[0, 1], &[3]).unwrap();
    model.finish().unwrap();
    let mut compilation = model.compile().unwrap();
    compilation.finish().unwrap();
    compilation
}

#[test]
fn the_safe_crate_computes_and_waits() {
    let mut compilation = sum();
    let mut result = [0f32; 3];
    let mut execution = compilation.create_execution().unwrap();
    execution.set_input(0, &[1f32, 2.0, 3.0]).unwrap();
    execution.set_input(1, &[10f32, 20.0, 30.0]).unwrap();
    execution.set_output(0, &mut result).unwrap();
    execution.compute().unwrap().wait().unwrap();
    assert_eq!(result, [11.0, 22.0, 33.0]);
}

#[test]
fn the_safe_crate_computes_in_a_burst() {
    let mut compilation = sum();
    let mut burst = Burst::new(&mut compilation).unwrap();
    for round in 0..100u8 {
        let mut result = [0f32; 3];
        let mut execution = compilation.create_execution().unwrap();
        execution.set_input(0, &[f32::from(round); 3]).unwrap();
        execution.set_input(1, &[1f32; 3]).unwrap();
        execution.set_output(0, &mut result).unwrap();
        execution.burst_compute(&mut burst).unwrap();
        assert_eq!(result, [f32::from(round) + 1.0; 3]);
    }
}

#[test]
fn the_bindings_find_every_device() {
    let mut count = 0;
    // SAFETY: the result outlives the call.
    let code = unsafe { nnapi_sys::ANeuralNetworks_getDeviceCount(&mut count) };
    assert_eq!(code, 0);
    assert!(count >= 2, "TFLite's delegate asks for two");
}
