//! A built-in network through the loaded library, in every form of execution.

use nnburst::hal::{Access, Memory, Request, RequestArgument, RequestPool};
use nnburst::{RuntimeError, builtin, hal};
use nnburst_ndk_client::{Library, RunMode, RunOptions};

fn argument(pool_index: u32, length: u32) -> RequestArgument {
    let location = hal::DataLocation { pool_index, offset: 0, length };
    RequestArgument { has_no_value: false, location, dimensions: Vec::new() }
}

#[test]
fn every_form_of_execution_adds() {
    let library = Library::open().unwrap();
    let device = library.device("nnapi-reference").unwrap();
    let source = builtin::model("add1").unwrap();
    let model = library.model(&source).unwrap();
    assert_eq!(model.supported(&device).unwrap(), [true]);
    let compilation = model.compile(&device).unwrap();
    let output = usize::try_from(source.main.output_indexes[0]).unwrap();
    let bytes = source.main.operands[output].data_size().unwrap();
    let length = u32::try_from(bytes).unwrap();
    for mode in [RunMode::Sync, RunMode::Async, RunMode::Burst, RunMode::Fenced] {
        for device_memory in [false, true] {
            let pools = [(); 2].map(|()| Memory::ashmem(u64::from(length)).unwrap());
            let request = Request {
                inputs: vec![argument(0, length), argument(0, length)],
                outputs: vec![argument(1, length)],
                pools: pools.each_ref().map(|pool| RequestPool::Memory(pool.clone())).into(),
            };
            let input: Vec<u8> = 1.5f32.to_le_bytes().repeat(bytes / 4);
            let mapping = pools[0].map(Access::ReadWrite).unwrap();
            mapping.view_mut(0..bytes).unwrap().copy_from_slice(&input);
            let run = RunOptions { mode, device_memory, loop_timeout: None };
            let outcome = compilation.run(&request, &run).unwrap();
            assert!(outcome.output_shapes[0].is_sufficient);
            let mut result = vec![0; bytes];
            pools[1].read_at(0, &mut result).unwrap();
            assert_eq!(result, 3f32.to_le_bytes().repeat(bytes / 4), "{mode:?} {device_memory}");
        }
    }
}

#[test]
fn what_is_not_there_is_said() {
    let library = Library::open().unwrap();
    assert!(library.device_names().unwrap().len() >= 2, "clients ask for two devices");
    let error = library.device("nowhere").unwrap_err();
    assert!(matches!(error, RuntimeError::UnknownDevice { .. }), "{error}");
    let error = library.model(&hal::Model::default()).unwrap_err().to_string();
    assert!(error.contains("no operands"), "{error}");
}
