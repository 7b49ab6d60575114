//! Queries and preparations.

use nnburst_driver::Options;
use nnburst_driver_sample::{names, sample_driver};
use nnburst_hal::*;

use crate::support::*;

#[test]
fn the_five_drivers_introduce_themselves() {
    assert_eq!(names().count(), 5);
    for name in names() {
        let served = served(name);
        let device = &served.device;
        assert_eq!(device.name(), name);
        assert_eq!(device.status().unwrap(), DeviceStatus::Available);
        assert_eq!(device.version_string().unwrap(), env!("CARGO_PKG_VERSION"));
        assert_eq!(device.device_type().unwrap(), DeviceType::Cpu);
        assert_eq!(device.supported_extensions().unwrap(), []);
        let files = CacheFiles { model: 1, data: 1 };
        assert_eq!(device.number_of_cache_files_needed().unwrap(), files);
        let capabilities = device.capabilities().unwrap();
        assert_eq!(capabilities, driver(name).device().capabilities().unwrap());
        let positive = |info: PerformanceInfo| info.exec_time > 0.0 && info.power_usage > 0.0;
        assert!(capabilities.operand_performance.iter().all(|entry| positive(entry.info)));
        assert!(positive(capabilities.if_performance) && positive(capabilities.while_performance));
    }
    assert!(sample_driver("nnapi-sample_none", Options::default()).is_err());
}

#[test]
fn each_driver_takes_its_own_operations() {
    let float = relu(OperandType::TensorFloat32, &[2]);
    let bytes = relu(OperandType::TensorQuant8Asymm, &[2]);
    let add = add_one(&[2]);
    let takes = |name: &str| {
        let device = driver(name).device();
        [&float, &bytes, &add].map(|model| device.supported_operations(model).unwrap()[0])
    };
    assert_eq!(takes("nnapi-sample_all"), [true, true, true]);
    assert_eq!(takes("nnapi-sample_float_fast"), [true, false, true]);
    assert_eq!(takes("nnapi-sample_float_slow"), [true, false, true]);
    assert_eq!(takes("nnapi-sample_quant"), [false, true, false]);
    assert_eq!(takes("nnapi-sample_minimal"), [false, false, true]);
}

#[test]
fn what_a_driver_does_not_take_it_refuses_by_the_callback() {
    let served = served("nnapi-sample_minimal");
    let (callback, words) = tell();
    let model = relu(OperandType::TensorFloat32, &[2]);
    let options = PrepareOptions::default();
    served.device.prepare_model(model, options, CacheHandles::default(), callback).unwrap();
    let word: Result<std::sync::Arc<dyn PreparedModel>> = words.recv_timeout(HUNG).unwrap();
    assert_eq!(word.map(drop).unwrap_err().status, ErrorStatus::InvalidArgument);
}

#[test]
fn invalid_models_are_refused_by_launch_and_callback() {
    let served = served("nnapi-sample_all");
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
    let served = served("nnapi-sample_all");
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
    let served = served("nnapi-sample_all");
    for &priority in Priority::ALL {
        for &preference in ExecutionPreference::ALL {
            let options = PrepareOptions { priority, preference, deadline: None };
            prepare_with(&served.device, add_one(&[1]), options).unwrap();
        }
    }
}
