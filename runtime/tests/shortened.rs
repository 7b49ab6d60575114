//! Memory that a client cuts short while a driver computes on it: that client's call fails, the
//! driver goes on. The network is wide enough for tiles of bytes, where a processor has them: what
//! they add to a signal has to find room on the stack of its handler.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

#[path = "common/driver.rs"]
mod driver;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use driver::Driver;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nnburst::hal::{
    DataLocation, ExecutionOptions, ExecutionOutcome, Memory, Model, Operand, PrepareOptions,
    Request, RequestArgument, RequestPool,
};
use nnburst::{Burst, BurstOptions, Compilation, ModelBuilder, Result, Wait};

const INPUT: usize = 16 * 16 * 64;
const OUTPUT: usize = 14 * 14 * 64;

/// What this binary does when it is started as a driver.
#[test]
fn child_main() {
    driver::serve_if_asked();
}

/// Sums of three by three pixels of 64 channels, for each of 64.
fn network() -> Model {
    let mut graph = ModelBuilder::new();
    let input = graph.input(Operand::quant8([1, 16, 16, 64], 1.0, 0));
    let ones = Operand::quant8([64, 3, 3, 64], 1.0, 128);
    let filter = graph.constant_of(ones, &[129u8; 64 * 3 * 3 * 64]);
    let bias = Operand::int32([64]).with_quantization(1.0, 0);
    let bias = graph.constant_of(bias, &[0i32; 64]);
    let output = graph.conv_2d(input, filter, bias).quantized(64.0, 0).done();
    graph.output(output);
    graph.build().unwrap()
}

/// A file that nothing protects, with room for an input and an output, and a request on it.
struct Unsealed {
    file: File,
    request: Request,
}

impl Unsealed {
    /// All inputs are three: each output is 27.
    fn new() -> Self {
        let file = File::from(memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap());
        let size = (INPUT + OUTPUT) as u64;
        file.write_all_at(&[3; INPUT], 0).unwrap();
        file.set_len(size).unwrap();
        let memory = Memory::from_fd(file.try_clone().unwrap().into(), 0, size, true).unwrap();
        let argument = |offset, length| RequestArgument {
            has_no_value: false,
            location: DataLocation { pool_index: 0, offset, length },
            dimensions: Vec::new(),
        };
        let (input, output) = (INPUT.try_into().unwrap(), OUTPUT.try_into().unwrap());
        let request = Request {
            inputs: vec![argument(0, input)],
            outputs: vec![argument(input, output)],
            pools: vec![RequestPool::Memory(memory)],
        };
        Self { file, request }
    }

    /// What is left of the file has no page of the input's last lines.
    fn cut(&self) {
        self.file.set_len(INPUT as u64 / 2).unwrap();
    }

    fn has_right_answers(&self) -> bool {
        let mut output = [0; OUTPUT];
        self.file.read_exact_at(&mut output, INPUT as u64).unwrap();
        output == [27; OUTPUT]
    }
}

type Call<'a> = Box<dyn FnMut(&Request) -> Result<ExecutionOutcome> + 'a>;

/// Whoever computes: a burst on a thread of its own in the driver, and a call.
fn calls(compilation: &Compilation) -> [Call<'_>; 2] {
    let wait = Wait::Block;
    let mut burst: Burst =
        compilation.burst(&BurstOptions { wait, ..BurstOptions::default() }).unwrap();
    let execution = compilation.execution();
    [
        Box::new(move |request| burst.compute_request(request, &ExecutionOptions::default())),
        Box::new(move |request| execution.compute_request(request)),
    ]
}

fn goes_on(call: &mut Call<'_>) {
    let memory = Unsealed::new();
    call(&memory.request).unwrap();
    assert!(memory.has_right_answers());
}

#[test]
fn memory_cut_short_before_a_call_fails_that_call_alone() {
    let driver = Driver::start();
    let compilation = driver.device.compile(&network(), PrepareOptions::default()).unwrap();
    for mut call in calls(&compilation) {
        goes_on(&mut call);
        let memory = Unsealed::new();
        call(&memory.request).unwrap();
        memory.cut();
        let error = call(&memory.request).unwrap_err();
        assert!(!error.is_device_lost(), "{error}");
        goes_on(&mut call);
    }
}

#[test]
fn memory_cut_short_under_a_call_costs_no_driver() {
    let driver = Driver::start();
    let compilation = driver.device.compile(&network(), PrepareOptions::default()).unwrap();
    for mut call in calls(&compilation) {
        goes_on(&mut call);
        let memory = Unsealed::new();
        let begun = Instant::now();
        call(&memory.request).unwrap();
        let took = begun.elapsed();
        for part in 0..40 {
            let memory = Unsealed::new();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let late = took * part / 40;
                    std::thread::sleep(late.max(Duration::from_nanos(1)));
                    memory.cut();
                });
                if let Err(error) = call(&memory.request) {
                    assert!(!error.is_device_lost(), "{error}");
                }
            });
        }
        goes_on(&mut call);
    }
}
