//! Drivers of every version behind clients of every version: what both know works, what either
//! lacks is refused.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::*;
use nnburst_hal_ipc::{Peer, RemoteDevice, Service};

use crate::support::*;

/// A device as one of another version sees it, from either side.
fn as_of(version: Version, device: Arc<dyn Device>) -> Arc<dyn Device> {
    match version {
        Version::V1_0 => v1_0::upgrade(v1_0::downgrade(device)),
        Version::V1_1 => v1_1::upgrade(v1_1::downgrade(device)),
        Version::V1_2 => v1_2::upgrade(v1_2::downgrade(device)),
        Version::V1_3 => device,
    }
}

const VERSIONS: [Version; 4] = [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3];

#[test]
fn every_client_gets_of_every_driver_what_both_know() {
    for driver_version in VERSIONS {
        let driver = as_of(driver_version, driver(CPU).device());
        let dir = tempfile::tempdir().unwrap();
        let service = Service::new("versions", move |_: &Peer| Arc::clone(&driver));
        let serving = service.listen(dir.path()).unwrap();
        let remote: Arc<dyn Device> =
            Arc::new(RemoteDevice::connect_path(&serving.path()).unwrap());
        for client_version in VERSIONS {
            let what = format!("client {client_version:?}, driver {driver_version:?}");
            let device = as_of(client_version, Arc::clone(&remote));
            check(device.as_ref(), client_version.min(driver_version), &what);
        }
    }
}

fn check(device: &dyn Device, common: Version, what: &str) {
    let model = prepare(device, add_one(&[2])).unwrap();
    executes(model.as_ref(), what);
    assert_eq!(bursts(model.as_ref()), common >= Version::V1_2, "{what}: bursts");
    assert_eq!(caches(device, what), common >= Version::V1_2, "{what}: caching");
    let role = BufferRole { model_index: 0, io_index: 0, frequency: 1.0 };
    let buffer = device.allocate(&BufferDesc::default(), &[Arc::clone(&model)], &[role], &[]);
    match buffer {
        Ok(buffer) => {
            assert_eq!(common, Version::V1_3, "{what}: buffers");
            buffer.copy_from(&floats(&[1.0, 2.0]), &[2]).unwrap();
        }
        Err(error) => {
            assert!(common < Version::V1_3, "{what}: {error}");
            assert_eq!(error.status, ErrorStatus::GeneralFailure, "{what}");
        }
    }
    let nonsense = prepare(device, Model::default()).map(drop).unwrap_err();
    assert_eq!(nonsense.status, ErrorStatus::InvalidArgument, "{what}");
}

/// Every version has executions in the background; the other kinds are made of them.
fn executes(model: &dyn PreparedModel, what: &str) {
    let options = ExecutionOptions::default();
    let run = |kind: &str, execute: &dyn Fn(&Request)| {
        let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
        execute(&request(&input, &output));
        assert_eq!(as_floats(&output), [2.0, 3.0], "{what}: {kind}");
    };
    let has_shapes = |outcome: ExecutionOutcome| {
        assert_eq!(outcome.output_shapes[0].dimensions, [2], "{what}");
        assert_eq!(outcome.timing, Timing::NONE, "{what}");
    };
    run("synchronous", &|request| {
        has_shapes(model.execute_synchronously(request, options).unwrap());
    });
    run("asynchronous", &|request| has_shapes(execute_async(model, request, options).unwrap()));
    run("fenced", &|request| {
        execute_fenced(model, request, options).unwrap();
    });
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let mut wrong = request(&input, &output);
    wrong.inputs.clear();
    let status = |result: ExecutionResult| result.unwrap_err().error.status;
    let refused = ErrorStatus::InvalidArgument;
    assert_eq!(status(model.execute_synchronously(&wrong, options)), refused, "{what}");
    assert_eq!(status(execute_async(model, &wrong, options)), refused, "{what}");
}

/// Whether bursts are to be had; they compute then.
fn bursts(model: &dyn PreparedModel) -> bool {
    let Ok(mut burst) = BurstController::configure(model, &ControllerOptions::default(), None)
    else {
        return false;
    };
    for _ in 0..3 {
        let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
        burst.execute(&request(&input, &output), &ExecutionOptions::default()).unwrap().unwrap();
        assert_eq!(as_floats(&output), [2.0, 3.0]);
    }
    true
}

/// Whether models are cached; what was kept comes back then.
fn caches(device: &dyn Device, what: &str) -> bool {
    let needed = device.number_of_cache_files_needed().unwrap();
    let files = |count: u32| -> Vec<OwnedFd> {
        (0..count).map(|_| memfd_create(c"cache", MFdFlags::MFD_CLOEXEC).unwrap()).collect()
    };
    let (model_files, data_files) = (files(needed.model), files(needed.data));
    let handles = || {
        let again = |files: &[OwnedFd]| files.iter().map(|f| f.try_clone().unwrap()).collect();
        let (model, data) = (again(&model_files), again(&data_files));
        CacheHandles { model, data, token: [3; CACHE_TOKEN_BYTES] }
    };
    wait_for_prepared_model(|callback| {
        device.prepare_model(add_one(&[2]), PrepareOptions::default(), handles(), callback)
    })
    .unwrap();
    let restored = wait_for_prepared_model(|callback| {
        device.prepare_model_from_cache(None, handles(), callback)
    });
    match restored {
        Ok(model) => {
            executes(model.as_ref(), what);
            needed != CacheFiles::default()
        }
        Err(error) => {
            assert_eq!(error.status, ErrorStatus::GeneralFailure, "{what}");
            false
        }
    }
}
