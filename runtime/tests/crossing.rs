//! The cost of crossing into a driver in another process, by which plans are chosen: a step, and a
//! byte. What is printed goes into `runtime/src/partition/cost.rs`.
//!
//! `cargo test --release -p nnburst --test crossing -- --ignored --nocapture`, on an idle machine.
#![expect(clippy::unwrap_used, reason = "a measurement")]

#[path = "common/driver.rs"]
mod driver;

use std::time::Instant;

use driver::Driver;
use nnburst::hal::{Model, Operand};
use nnburst::{
    Burst, BurstOptions, Compilation, Device, Frame, ModelBuilder, PrepareOptions, Result,
};

/// What this binary does when it is started as a driver.
#[test]
fn child_main() {
    driver::serve_if_asked();
}

fn relu(elements: u32) -> Model {
    let mut graph = ModelBuilder::new();
    let x = graph.input(Operand::float32([elements]));
    let y = graph.relu(x).done();
    graph.output(y);
    graph.build().unwrap()
}

/// The median of microseconds from the call until its outputs were read.
fn median(
    compilation: &Compilation,
    elements: usize,
    mut call: impl FnMut(&mut Frame) -> Result<()>,
) -> f64 {
    let mut frame = compilation.frame().unwrap();
    let mut values = vec![1.0f32; elements];
    let mut times = Vec::new();
    for _ in 0..300 {
        frame.write(0, &values).unwrap();
        let start = Instant::now();
        call(&mut frame).unwrap();
        frame.read_into(0, &mut values).unwrap();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

#[test]
#[ignore = "a measurement, for an idle machine"]
fn a_step_and_a_byte() {
    let driver = Driver::start();
    let embedded = Device::embedded("nnapi-sample_all").unwrap();
    let of = |elements: u32| {
        let count = elements as usize;
        let compile =
            |device: &Device| device.compile(&relu(elements), PrepareOptions::default()).unwrap();
        let (here, there) = (compile(&embedded), compile(&driver.device));
        let mut burst: Burst = there.burst(&BurstOptions::default()).unwrap();
        let here = median(&here, count, |frame| here.execution().compute(frame));
        let called = median(&there, count, |frame| there.execution().compute(frame));
        let in_burst = median(&there, count, |frame| burst.compute(frame));
        println!(
            "{elements} floats: here {here:.1} us, by calls {called:.1}, in a burst {in_burst:.1}"
        );
        [called - here, in_burst - here]
    };
    let small = of(1);
    let large = of(1 << 20);
    // In and out.
    let bytes = f64::from(1u32 << 20) * 4.0 * 2.0;
    for (way, (small, large)) in ["calls", "burst"].iter().zip(small.into_iter().zip(large)) {
        println!(
            "{way}: {:.0} ns a step, {:.3} ns a byte",
            small * 1e3,
            (large - small) * 1e3 / bytes
        );
    }
}
