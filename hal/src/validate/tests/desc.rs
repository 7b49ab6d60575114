//! Descriptors of driver-managed buffers.

use super::*;
use crate::testing::relu_model;
use crate::types::{BufferDesc, BufferRole};
use crate::validate::{Direction, MemoryRole, validate_memory_desc};

fn role(model_index: u32, io_index: u32) -> BufferRole {
    BufferRole { model_index, io_index, frequency: 1.0 }
}

fn check(
    dimensions: &[u32],
    models: &[Model],
    inputs: &[BufferRole],
    outputs: &[BufferRole],
) -> Result<Vec<u32>, String> {
    let desc = BufferDesc { dimensions: dimensions.to_vec() };
    let models: Vec<&Model> = models.iter().collect();
    validate_memory_desc(&desc, &models, inputs, outputs)
        .map(|roles| roles.operand.dimensions)
        .map_err(|error| error.to_string())
}

#[test]
fn roles() {
    let models = [relu_model(&[2, 0]), relu_model(&[0, 3])];
    let refusal = |inputs: &[BufferRole], outputs: &[BufferRole]| {
        check(&[], &models, inputs, outputs).unwrap_err()
    };
    assert_eq!(
        check(&[], &[], &[role(0, 0)], &[]).unwrap_err(),
        "memory descriptor: there is no prepared model"
    );
    assert_eq!(refusal(&[], &[]), "memory descriptor: there is no role");
    assert_eq!(refusal(&[role(2, 0)], &[]), "input role 0: there is no prepared model 2 of 2");
    assert_eq!(refusal(&[role(0, 0)], &[role(0, 1)]), "output role 0: there is no output 1 of 1");
    assert_eq!(refusal(&[role(0, 0), role(0, 0)], &[]), "input role 1: the role is given twice");
    for frequency in [0.0, -0.5, 10.0, f32::NAN] {
        let role = BufferRole { frequency, ..role(0, 0) };
        assert!(refusal(&[role], &[]).contains("the frequency is"), "{frequency}");
    }
    // An input and an output of the same index are two roles.
    assert_eq!(check(&[], &models, &[role(0, 0)], &[role(0, 0)]), Ok(vec![2, 0]));
    let desc = BufferDesc::default();
    let list = [&models[0], &models[1]];
    let found = validate_memory_desc(&desc, &list, &[role(0, 0)], &[role(1, 0)]).unwrap();
    let expected = [(0, Direction::Input), (1, Direction::Output)]
        .map(|(model, direction)| MemoryRole { model, direction, index: 0 });
    assert!(found.roles.into_iter().eq(expected));
}

#[test]
fn shapes_combine() {
    let models = [relu_model(&[2, 0]), relu_model(&[0, 3]), relu_model(&[]), relu_model(&[4, 3])];
    let combine = |desc: &[u32], which: &[u32]| {
        let roles: Vec<_> = which.iter().map(|&model| role(model, 0)).collect();
        check(desc, &models, &roles, &[])
    };
    assert_eq!(combine(&[], &[0, 1]), Ok(vec![2, 3]));
    assert_eq!(combine(&[], &[2]), Ok(vec![]));
    assert_eq!(combine(&[5, 6, 7], &[2]), Ok(vec![5, 6, 7]));
    assert_eq!(combine(&[0, 3], &[0, 2]), Ok(vec![2, 3]));
    assert_eq!(
        combine(&[], &[0, 3]),
        Err("input role 1: shapes [4, 3] and [2, 0] don't go together".to_owned())
    );
    assert!(combine(&[2, 3, 1], &[0]).is_err(), "rank of the descriptor");
    assert!(combine(&[3, 3], &[0]).is_err(), "extent of the descriptor");
}

#[test]
fn operands_agree() {
    let mut quantised = relu_model(&[2]);
    for operand in &mut quantised.main.operands {
        operand.kind = T::TensorQuant8Asymm;
        (operand.scale, operand.zero_point) = (0.5, 1);
    }
    let change = |change: fn(&mut Operand)| {
        let mut other = quantised.clone();
        change(&mut other.main.operands[0]);
        let models = [quantised.clone(), other];
        check(&[], &models, &[role(0, 0), role(1, 0)], &[])
    };
    let conflict =
        |what| Err(format!("input role 1: the operand differs from the other roles' in {what}"));
    assert_eq!(change(|_| {}), Ok(vec![2]));
    assert_eq!(change(|o| o.kind = T::TensorFloat32), conflict("type"));
    assert_eq!(change(|o| o.scale = 0.25), conflict("scale"));
    assert_eq!(change(|o| o.zero_point = 0), conflict("zero point"));
    let mut scalar = relu_model(&[]);
    scalar.main.operands[0].kind = T::Int32;
    let models = [scalar];
    assert_eq!(check(&[], &models, &[role(0, 0)], &[]), Ok(vec![]));
    assert_eq!(
        check(&[1], &models, &[role(0, 0)], &[]),
        Err("memory descriptor: a scalar can't have the shape [1]".to_owned())
    );
}
