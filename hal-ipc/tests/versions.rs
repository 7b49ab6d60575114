//! Drivers of every version behind clients of every version, with a socket between them.

use std::sync::Arc;

use nnburst_hal::testing::{ReluDriver, relu_model, relu_request};
use nnburst_hal::*;
use nnburst_hal_ipc::{Peer, RemoteDevice, Service};

type Versions = [(&'static str, Arc<dyn Device>); 4];

/// A driver that implements each version, made the newest.
fn drivers() -> Versions {
    [
        ("1.0", v1_0::upgrade(Arc::new(ReluDriver))),
        ("1.1", v1_1::upgrade(Arc::new(ReluDriver))),
        ("1.2", v1_2::upgrade(Arc::new(ReluDriver))),
        ("1.3", Arc::new(ReluDriver)),
    ]
}

fn version_name(driver: &str) -> String {
    format!("V{}", driver.replace('.', "_"))
}

/// The device as clients of each version use it.
fn clients(device: &Arc<dyn Device>) -> Versions {
    let device = || Arc::clone(device);
    [
        ("1.0", v1_0::upgrade(v1_0::downgrade(device()))),
        ("1.1", v1_1::upgrade(v1_1::downgrade(device()))),
        ("1.2", v1_2::upgrade(v1_2::downgrade(device()))),
        ("1.3", device()),
    ]
}

#[test]
fn every_client_computes_on_every_driver() {
    for (driver, device) in drivers() {
        let dir = tempfile::tempdir().unwrap();
        let service = Service::new("relu", move |_: &Peer| Arc::clone(&device));
        let serving = service.listen(dir.path()).unwrap();
        let remote: Arc<dyn Device> =
            Arc::new(RemoteDevice::connect_path(&serving.path()).unwrap());
        assert_eq!(format!("{:?}", remote.interface_version()), version_name(driver));
        for (client, device) in clients(&remote) {
            let what = format!("client {client}, driver {driver}");
            assert_eq!(device.supported_operations(&relu_model(&[2])).unwrap(), [true], "{what}");
            let model = wait_for_prepared_model(|callback| {
                let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
                device.prepare_model(relu_model(&[2]), options, cache, callback)
            })
            .unwrap();
            let (request, memory) = relu_request(&[-1.5, 2.5]).unwrap();
            model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
            let mut bytes = [0; 8];
            memory.read_at(8, &mut bytes).unwrap();
            assert_eq!(bytes, [0.0f32.to_le_bytes(), 2.5f32.to_le_bytes()].concat()[..], "{what}");

            let nonsense = Model::default();
            let refused = device.supported_operations(&nonsense).unwrap_err();
            assert_eq!(refused.status, ErrorStatus::InvalidArgument, "{what}");
        }
    }
}
