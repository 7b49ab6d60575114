//! Preparations.

use nnburst_hal::*;

use crate::support::*;

#[test]
fn invalid_models_are_refused_by_launch_and_callback() {
    let served = served(CPU);
    let mut cases = Vec::new();
    let mut case = |what: &'static str, change: &dyn Fn(&mut Model)| {
        let mut model = add_one(&[2]);
        change(&mut model);
        cases.push((what, model));
    };
    case("no operations", &|m| m.main.operations.clear());
    case("an index past the operands", &|m| m.main.operations[0].inputs[0] = 4);
    case("a reader too many", &|m| m.main.operands[0].number_of_consumers = 2);
    case("a scale where there is none", &|m| m.main.operands[0].scale = 1.0);
    case("a constant past its bytes", &|m| m.main.operands[1].location.offset = 8);
    case("fewer bytes of constants", &|m| m.operand_values.truncate(7));
    case("a cycle", &|m| {
        let operation = &mut m.main.operations[0];
        operation.inputs[0] = operation.outputs[0];
    });
    for (what, model) in cases {
        let asked = served.device.supported_operations(&model);
        assert_eq!(asked.unwrap_err().status, ErrorStatus::InvalidArgument, "{what}");
        let (callback, words) = tell();
        let options = PrepareOptions::default();
        let cache = CacheHandles::default();
        let launch = served.device.prepare_model(model, options, cache, callback).unwrap_err();
        assert_eq!(launch.status, ErrorStatus::InvalidArgument, "{what}");
        let word: Result<std::sync::Arc<dyn PreparedModel>> = words.recv_timeout(HUNG).unwrap();
        assert_eq!(word.map(drop).unwrap_err(), launch, "{what}");
    }
}

#[test]
fn constants_may_lie_in_a_file_at_an_odd_offset() {
    use std::io::Write;
    let served = served(CPU);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"odd").unwrap();
    file.write_all(&1.0f32.to_le_bytes()).unwrap();
    let mut model = add_one(&[2]);
    model.pools = vec![Memory::from_fd(file.into(), 3, 4, false).unwrap()];
    model.main.operands[1].lifetime = OperandLifeTime::ConstantReference;
    let prepared = prepare(&served.device, model).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let request = request(&input, &output);
    prepared.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
    assert_eq!(as_floats(&output), [2.0, 3.0]);
}

#[test]
fn priorities_and_preferences_are_accepted() {
    let served = served(CPU);
    for &priority in Priority::ALL {
        for &preference in ExecutionPreference::ALL {
            let options = PrepareOptions { priority, preference, deadline: None };
            prepare_with(&served.device, add_one(&[1]), options).unwrap();
        }
    }
}
