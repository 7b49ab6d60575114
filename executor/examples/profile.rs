//! Times each step of a model: `cargo run --release -p nnburst-executor --example profile -- model.tflite [runs]`.
#![expect(clippy::print_stdout, reason = "a command")]

use std::time::{Duration, Instant};

use nnburst_executor::{CompileOptions, Control, Input, Output, Plan, StepTime};
use nnburst_hal::{View, ViewMut};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: profile model.tflite [runs]")?;
    let runs: usize = arguments.next().map_or(Ok(200), |runs| runs.parse())?;
    let model = nnburst_tflite::Imported::open(&path)?.model;
    let start = Instant::now();
    let plan = Plan::compile(&model, &CompileOptions::default())?;
    println!("prepared in {:?}, static: {}", start.elapsed(), plan.is_static());
    let main = &model.main;
    let size = |&index: &u32| main.operands[index as usize].data_size().unwrap_or(1 << 20);
    let values: Vec<Vec<u8>> = main.input_indexes.iter().map(|i| vec![0; size(i)]).collect();
    let mut buffers: Vec<Vec<u8>> = main.output_indexes.iter().map(|i| vec![0; size(i)]).collect();
    let inputs: Vec<_> = values.iter().map(|value| Input::new(View::of(value))).collect();
    let outputs: Vec<_> = buffers.iter_mut().map(|b| Output::new(ViewMut::of(b))).collect();
    let (mut session, control) = (plan.session(), Control::default());
    let mut whole = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        session.run(&inputs, &outputs, &control)?;
        whole.push(start.elapsed());
    }
    let mut steps: Vec<Vec<Duration>> = Vec::new();
    let mut last: Vec<StepTime> = Vec::new();
    for _ in 0..runs {
        last = session.profile(&inputs, &outputs, &control)?;
        steps.resize(last.len(), Vec::new());
        steps.iter_mut().zip(&last).for_each(|(times, step)| times.push(step.time));
    }
    for (step, times) in last.iter().zip(&mut steps) {
        let time = median(times);
        let rate = step.label.operations as f64 / time.as_secs_f64() / 1e9;
        println!(
            "{:>3} {:<20} {:<22} {:<7} {:>9.1} us {rate:>8.1} GOP/s  {}",
            step.index,
            step.name,
            step.label.kernel,
            format!("{:?}", step.label.form),
            time.as_secs_f64() * 1e6,
            step.label.shape
        );
    }
    println!("median {:?}", median(&mut whole));
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
