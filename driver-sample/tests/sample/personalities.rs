//! The personalities of the sample drivers: queries, and the operations that each takes.

use nnburst_driver::CpuDriverOptions;
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
    assert!(sample_driver("nnapi-sample_none", CpuDriverOptions::default()).is_err());
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
