//! Models.

use super::*;
use crate::types::{ChannelQuant, ExtensionCode, ExtensionNameAndPrefix, ExtraParams, Version};
use crate::validate::{
    Rule, ValidationMode, validate_model, validate_model_in, validate_model_polled,
};
use crate::{Memory, MemoryKind};

struct Case {
    what: &'static str,
    model: fn() -> Model,
    change: fn(&mut Model),
    refusal: &'static str,
}

fn check(cases: &[Case]) {
    for Case { what, model, change, refusal } in cases {
        let mut model = model();
        validate_model(&model, Version::V1_3).unwrap();
        change(&mut model);
        let error = validate_model(&model, Version::V1_3).expect_err(what);
        assert_eq!(error.to_string(), *refusal, "{what}");
    }
}

fn quantised(model: &mut Model, kind: T, scale: f32, zero_point: i32) {
    let operand = &mut model.main.operands[0];
    (operand.kind, operand.scale, operand.zero_point) = (kind, scale, zero_point);
}

#[test]
fn operands() {
    check(&[
        Case {
            what: "scalar with a shape",
            model: add_model,
            change: |m| m.main.operands[2].dimensions = vec![1],
            refusal: "operand 2 (INT32) of the main graph: a scalar has 1 dimensions",
        },
        Case {
            what: "constant of unknown rank",
            model: add_model,
            change: |m| m.main.operands[1].dimensions.clear(),
            refusal: "operand 1 (TENSOR_FLOAT32) of the main graph: the rank is unknown; a constant's has to be known",
        },
        Case {
            what: "scale of a float",
            model: add_model,
            change: |m| m.main.operands[0].scale = 0.5,
            refusal: "operand 0 (TENSOR_FLOAT32) of the main graph: the scale is 0.5; it has to be 0",
        },
        Case {
            what: "scale of integers",
            model: add_model,
            change: |m| quantised(m, T::TensorInt32, -1.0, 0),
            refusal: "operand 0 (TENSOR_INT32) of the main graph: the scale is -1; it has to be 0 or more",
        },
        Case {
            what: "no scale",
            model: add_model,
            change: |m| quantised(m, T::TensorQuant8Asymm, 0.0, 0),
            refusal: "operand 0 (TENSOR_QUANT8_ASYMM) of the main graph: the scale is 0; it has to be greater than 0 and finite",
        },
        Case {
            what: "zero point past its type",
            model: add_model,
            change: |m| quantised(m, T::TensorQuant8AsymmSigned, 1.0, 128),
            refusal: "operand 0 (TENSOR_QUANT8_ASYMM_SIGNED) of the main graph: the zero point is 128; it has to be from -128 to 127",
        },
        Case {
            what: "parameters of another type",
            model: add_model,
            change: |m| m.main.operands[0].extra_params = ExtraParams::Extension(vec![1]),
            refusal: "operand 0 (TENSOR_FLOAT32) of the main graph: the extra parameters are not those of the type",
        },
        Case {
            what: "beyond 32 bits",
            model: add_model,
            change: |m| m.main.operands[0].dimensions = vec![1 << 16, 1 << 14, 0],
            refusal: "operand 0 (TENSOR_FLOAT32) of the main graph: the tensor has more than 2^32 - 1 bytes",
        },
        Case {
            what: "a location without a value",
            model: add_model,
            change: |m| m.main.operands[0].location.offset = 1,
            refusal: "operand 0 (TENSOR_FLOAT32) of the main graph: the lifetime SUBGRAPH_INPUT has no location, yet it is not all zero",
        },
        Case {
            what: "constant past the end",
            model: add_model,
            change: |m| m.main.operands[1].location.offset = u32::MAX,
            refusal: "operand 1 (TENSOR_FLOAT32) of the main graph: bytes 4294967295..4294967295+8 are not within 12 bytes",
        },
        Case {
            what: "constant too short",
            model: add_model,
            change: |m| m.main.operands[1].location.length = 7,
            refusal: "operand 1 (TENSOR_FLOAT32) of the main graph: 7 bytes for a value of 8",
        },
        Case {
            what: "constant in a pool",
            model: add_model,
            change: |m| m.main.operands[1].location.pool_index = 1,
            refusal: "operand 1 (TENSOR_FLOAT32) of the main graph: the pool index is 1; it has to be 0",
        },
        Case {
            what: "constant in no pool",
            model: add_model,
            change: |m| m.main.operands[1].lifetime = L::ConstantReference,
            refusal: "operand 1 (TENSOR_FLOAT32) of the main graph: there is no pool 0 of 0",
        },
        Case {
            what: "an extension without a name",
            model: add_model,
            change: |m| {
                m.main.operands[0].kind = T::Extension(ExtensionCode { prefix: 5, number: 1 });
            },
            refusal: "operand 0 (EXTENSION(5, 1)) of the main graph: the model gives no extension the prefix 5",
        },
        Case {
            what: "lifetime of a graph",
            model: add_model,
            change: |m| m.main.operands[0].lifetime = L::Subgraph,
            refusal: "operand 0 (TENSOR_FLOAT32) of the main graph: type SUBGRAPH and lifetime SUBGRAPH go together; the lifetime is SUBGRAPH",
        },
        Case {
            what: "no such graph",
            model: if_model,
            change: |m| m.main.operands[1].location.offset = 2,
            refusal: "operand 1 (SUBGRAPH) of the main graph: there is no referenced graph 2 of 2",
        },
    ]);
}

#[test]
fn channel_scales() {
    let refusal = |scales: &[f32], channel_dim, dimensions: &[u32]| {
        let mut model = add_model();
        let operand = &mut model.main.operands[0];
        operand.kind = T::TensorQuant8SymmPerChannel;
        operand.dimensions = dimensions.to_vec();
        let quant = ChannelQuant { scales: scales.to_vec(), channel_dim };
        operand.extra_params = ExtraParams::ChannelQuant(quant);
        let error = validate_model(&model, Version::V1_3).unwrap_err().to_string();
        error.split_once(": ").unwrap().1.to_owned()
    };
    assert_eq!(refusal(&[1.0], 2, &[2, 2]), "the channels are dimension 2 of 2");
    assert_eq!(refusal(&[1.0], 0, &[2, 2]), "1 scales for 2 channels");
    assert_eq!(refusal(&[], 0, &[0, 2]), "0 scales for 0 channels");
    assert_eq!(
        refusal(&[1.0, -1.0], 0, &[2, 2]),
        "channel 1 has scale -1; it has to be greater than 0 and finite"
    );
    // Right, and refused by ADD alone.
    assert!(refusal(&[1.0, 2.0], 0, &[2, 2]).starts_with("input 0 is a TENSOR_QUANT8_SYMM_PER"));
}

#[test]
fn graphs() {
    check(&[
        Case {
            what: "nothing to do",
            model: add_model,
            change: |m| m.main.operations.clear(),
            refusal: "the main graph: there are no operations",
        },
        Case {
            what: "no such operand",
            model: add_model,
            change: |m| m.main.operations[0].inputs[1] = 4,
            refusal: "operation 0 (ADD) of the main graph: input 1 is operand 4 of 4",
        },
        Case {
            what: "an argument short",
            model: add_model,
            change: |m| m.main.operations[0].inputs.truncate(2),
            refusal: "operation 0 (ADD) of the main graph: 2 inputs, where the operation has 3",
        },
        Case {
            what: "another type",
            model: add_model,
            change: |m| m.main.operands[0].kind = T::TensorFloat16,
            refusal: "operation 0 (ADD) of the main graph: input 1 is a TENSOR_FLOAT32, where TENSOR_FLOAT16 would fit",
        },
        Case {
            what: "a constant written",
            model: add_model,
            change: |m| {
                m.main.operands[3].lifetime = L::ConstantCopy;
                m.main.operands[3].location.length = 16;
                m.operand_values = vec![0; 16];
            },
            refusal: "operation 0 (ADD) of the main graph: output 0 is operand 3 of lifetime CONSTANT_COPY",
        },
        Case {
            what: "listed twice",
            model: add_model,
            change: |m| m.main.input_indexes.push(0),
            refusal: "operand 0 (TENSOR_FLOAT32) of the main graph: the graph lists it twice",
        },
        Case {
            what: "listed and not an input",
            model: add_model,
            change: |m| m.main.input_indexes.push(1),
            refusal: "the main graph: input 1 of the graph is operand 1 of lifetime CONSTANT_COPY",
        },
        Case {
            what: "listed and not there",
            model: add_model,
            change: |m| m.main.output_indexes.push(7),
            refusal: "the main graph: output 1 of the graph is operand 7 of 4",
        },
        Case {
            what: "not listed",
            model: add_model,
            change: |m| m.main.output_indexes.clear(),
            refusal: "operand 3 (TENSOR_FLOAT32) of the main graph: it has lifetime SUBGRAPH_OUTPUT, and the graph does not list it",
        },
        Case {
            what: "read too early",
            model: add_model,
            change: |m| {
                m.main.operands[0].lifetime = L::TemporaryVariable;
                m.main.input_indexes.clear();
            },
            refusal: "operation 0 (ADD) of the main graph: input 0 is operand 0, which nothing has written yet",
        },
        Case {
            what: "written twice",
            model: add_model,
            change: |m| {
                let again = m.main.operations[0].clone();
                m.main.operations.push(again);
            },
            refusal: "operation 1 (ADD) of the main graph: output 0 is operand 3, which has a value already",
        },
        Case {
            what: "never written",
            model: add_model,
            change: |m| {
                m.main.operands.push(Operand::tensor(T::TensorFloat32, vec![1]));
            },
            refusal: "operand 4 (TENSOR_FLOAT32) of the main graph: nothing writes it",
        },
        Case {
            what: "read more often than said",
            model: add_model,
            change: |m| m.main.operands[0].number_of_consumers = 2,
            refusal: "operand 0 (TENSOR_FLOAT32) of the main graph: it has 2 consumers, and 1 inputs read it",
        },
    ]);
}

#[test]
fn control_flow() {
    check(&[
        Case {
            what: "IF without branches",
            model: if_model,
            change: |m| m.main.operations[0].inputs.truncate(1),
            refusal: "operation 0 (IF) of the main graph: 1 inputs, where the operation has 3 or more",
        },
        Case {
            what: "two conditions",
            model: if_model,
            change: |m| m.main.operands[0].dimensions = vec![2],
            refusal: "operation 0 (IF) of the main graph: the condition has to be TENSOR_BOOL8 of shape [1]",
        },
        Case {
            what: "no branch",
            model: if_model,
            change: |m| m.main.operations[0].inputs[2] = 3,
            refusal: "operation 0 (IF) of the main graph: input 2 is no reference to a graph",
        },
        Case {
            what: "a branch without inputs",
            model: if_model,
            change: |m| m.referenced[1].input_indexes.clear(),
            refusal: "operation 0 (IF) of the main graph: referenced graph 1 has 0 inputs, where 1 to 1 fit",
        },
        Case {
            what: "a branch of another shape",
            model: if_model,
            change: |m| m.referenced[1].operands[1].dimensions = vec![3],
            refusal: "operation 0 (IF) of the main graph: output 0 and output 0 of referenced graph 1 differ in type, shape or quantisation",
        },
        Case {
            what: "a wrong operation in a branch",
            model: if_model,
            change: |m| m.referenced[1].operations[0].kind = OperationType::LogicalNot,
            refusal: "operation 0 (LOGICAL_NOT) of referenced graph 1: input 0 is a TENSOR_FLOAT32, where TENSOR_BOOL8 would fit",
        },
        Case {
            what: "a condition of another shape",
            model: while_model,
            change: |m| m.referenced[0].operands[2].dimensions = vec![2],
            refusal: "operation 0 (WHILE) of the main graph: the condition has to be TENSOR_BOOL8 of shape [1]",
        },
        Case {
            what: "a body that forgets",
            model: while_model,
            change: |m| m.referenced[1].output_indexes.clear(),
            refusal: "operation 0 (WHILE) of the main graph: referenced graph 1 has 0 outputs, where 1 to 2 fit",
        },
        Case {
            what: "state that changes its shape",
            model: while_model,
            change: |m| m.referenced[1].operands[3].dimensions = vec![2],
            refusal: "operation 0 (WHILE) of the main graph: input 1 of referenced graph 1 and output 1 of referenced graph 1 differ in type, shape or quantisation",
        },
        Case {
            what: "a graph that reaches itself",
            model: if_model,
            change: |m| {
                m.referenced[0] = Subgraph { operands: vec![subgraph(1)], ..Subgraph::default() }
            },
            refusal: "operation 0 (IF) of the main graph: referenced graph 0 has 0 inputs, where 1 to 1 fit",
        },
    ]);
}

#[test]
fn unknown_sizes_in_loops_are_for_runtimes() {
    let mut model = while_model();
    for graph in std::iter::once(&mut model.main).chain(&mut model.referenced) {
        let states = graph.operands.iter_mut().filter(|operand| operand.kind == T::TensorBool8);
        states.for_each(|operand| operand.dimensions = vec![0]);
    }
    model.referenced[0].operands[2].dimensions = vec![1];
    let check = |mode| validate_model_in(&model, Version::V1_3, mode);
    check(ValidationMode::Runtime).unwrap();
    let error = check(ValidationMode::Driver).unwrap_err().to_string();
    assert_eq!(error, "operation 0 (WHILE) of the main graph: the size of input 2 is unknown");
    validate_model_in(&while_model(), Version::V1_3, ValidationMode::Driver).unwrap();
}

/// A chain of graphs, each an IF whose branches are the next one; the last is a RELU.
fn nested(depth: u32) -> Model {
    let mut model = if_model();
    let branch = model.main.clone();
    let last = model.referenced[0].clone();
    let level = |next| {
        let mut graph = branch.clone();
        graph.operands[1].location.offset = next;
        graph.operands[2].location.offset = next;
        graph.operands[0] = constant(T::TensorBool8, &[1], 0);
        graph.input_indexes = vec![3];
        graph
    };
    model.operand_values = vec![1];
    model.main = level(0);
    model.referenced = (1..depth).map(level).chain([last]).collect();
    model
}

#[test]
fn nesting_has_an_end() {
    let depth = u32::try_from(crate::MAX_SUBGRAPH_DEPTH).unwrap();
    validate_model(&nested(depth), Version::V1_3).unwrap();
    let error = validate_model(&nested(depth + 1), Version::V1_3).unwrap_err().to_string();
    assert_eq!(error, "referenced graph 0: graphs are nested more than 64 deep");
    // Far too deep, and a cycle: neither recursion nor an endless search.
    assert!(validate_model(&nested(20_000), Version::V1_3).is_err());
    let mut cycle = nested(5);
    cycle.referenced[3].operands[1].location.offset = 1;
    let error = validate_model(&cycle, Version::V1_3).unwrap_err().to_string();
    assert_eq!(error, "referenced graph 3: it reaches itself");
}

#[test]
fn versions_know_what_they_know() {
    let at = |model: &Model, version| {
        validate_model(model, version).map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    let mut model = add_model();
    for version in Version::ALL {
        assert_eq!(at(&model, version), "");
    }
    model.main.operands[0].dimensions.clear();
    assert_eq!(at(&model, Version::V1_2), "");
    assert_eq!(
        at(&model, Version::V1_1),
        "operand 0 (TENSOR_FLOAT32) of the main graph: the rank is unknown; that needs HAL 1.2"
    );
    assert_eq!(
        at(&if_model(), Version::V1_2),
        "model: referenced graphs need HAL V1_3, this is V1_2"
    );
    let mut model = add_model();
    model.main.operations[0].kind = OperationType::Sub;
    assert_eq!(at(&model, Version::V1_1), "");
    assert_eq!(
        at(&model, Version::V1_0),
        "operation 0 (SUB) of the main graph: the operation needs HAL V1_1, this is V1_0"
    );
    for index in [0, 1, 3] {
        model.main.operands[index].kind = T::TensorQuant8Asymm;
        model.main.operands[index].scale = 1.0;
    }
    model.main.operands[1].location.length = 2;
    assert_eq!(
        at(&model, Version::V1_1),
        "operation 0 (SUB) of the main graph: with these operand types it needs HAL V1_2, this is V1_1"
    );
    let mut model = add_model();
    model.extension_name_to_prefix =
        vec![ExtensionNameAndPrefix { name: "a.b".to_owned(), prefix: 1 }];
    assert_eq!(at(&model, Version::V1_1), "model: extensions need HAL V1_2, this is V1_1");
    let code = ExtensionCode { prefix: 1, number: 9 };
    model.main.operations[0].kind = OperationType::Extension(code);
    assert_eq!(at(&model, Version::V1_2), "");
    model.extension_name_to_prefix.clear();
    assert_eq!(
        at(&model, Version::V1_2),
        "operation 0 (EXTENSION(1, 9)) of the main graph: the model gives no extension the prefix 1"
    );
    model.main.operations[0].kind = OperationType::OemOperation;
    assert_eq!(at(&model, Version::V1_0), "", "OEM operations are their driver's affair");
}

#[test]
fn pools_are_those_of_the_version() {
    let blob = Memory::from_handle(
        MemoryKind::HardwareBufferBlob.name(),
        vec![Memory::ashmem(64).unwrap().fd().try_clone_to_owned().unwrap()],
        Vec::new(),
        64,
    )
    .unwrap();
    let mut model = add_model();
    model.pools.push(blob);
    assert!(validate_model(&model, Version::V1_2).is_ok());
    let error = validate_model(&model, Version::V1_1).unwrap_err().to_string();
    assert_eq!(error, "pool 0: HAL V1_1 knows no memory hardware_buffer_blob");
    model.pools = vec![Memory::ashmem(8).unwrap()];
    let operand = &mut model.main.operands[1];
    operand.lifetime = L::ConstantReference;
    assert!(validate_model(&model, Version::V1_0).is_ok());
    model.main.operands[1].location.offset = 1;
    let error = validate_model(&model, Version::V1_0).unwrap_err().to_string();
    assert!(error.ends_with("bytes 1..1+8 are not within 8 bytes"), "{error}");
}

#[test]
fn validation_of_a_large_model_polls_and_ends() {
    use std::cell::Cell;
    // RELUs one behind the other.
    const COUNT: u32 = 20_000;
    let operand = |lifetime, number_of_consumers| Operand {
        number_of_consumers,
        ..Operand::tensor(OperandType::TensorFloat32, vec![1]).with_lifetime(lifetime)
    };
    let mut operands = vec![operand(OperandLifeTime::SubgraphInput, 1)];
    operands.extend((1..COUNT).map(|_| operand(OperandLifeTime::TemporaryVariable, 1)));
    operands.push(operand(OperandLifeTime::SubgraphOutput, 0));
    let relu =
        |at| Operation { kind: OperationType::Relu, inputs: vec![at], outputs: vec![at + 1] };
    let operations = (0..COUNT).map(relu).collect();
    let (input_indexes, output_indexes) = (vec![0], vec![COUNT]);
    let main = Subgraph { operands, operations, input_indexes, output_indexes };
    let model = Model { main, ..Model::default() };
    let polls = Cell::new(0);
    let goes_on = |most: u32| {
        let polls = &polls;
        move || {
            polls.set(polls.get() + 1);
            polls.get() <= most
        }
    };
    validate_model_polled(&model, Version::V1_3, &goes_on(u32::MAX)).unwrap();
    let all = polls.get();
    assert!(all > 20, "{all} polls");
    for most in 0..all {
        polls.set(0);
        let ended = validate_model_polled(&model, Version::V1_3, &goes_on(most)).unwrap_err();
        assert_eq!((ended.rule, polls.get()), (Rule::Ended, most + 1));
    }
}
