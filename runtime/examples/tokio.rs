//! Frames awaited in tokio: two cameras share a driver and a burst, while a timer ticks.
//!
//! `cargo run --release -p nnburst --features futures --example tokio`

use std::time::Duration;

use nnburst::{AsyncBurst, BurstOptions, Compilation, Device, PrepareOptions, Result, builtin};

/// The latencies of one camera's pictures.
async fn camera(
    burst: AsyncBurst,
    compilation: Compilation,
    pictures: usize,
) -> Result<Vec<Duration>> {
    let mut frame = compilation.frame()?;
    let mut latencies = Vec::with_capacity(pictures);
    for _ in 0..pictures {
        frame.write(0, &vec![0.5f32; 128 * 128 * 3])?;
        let (back, result) = burst.compute(frame).await;
        result?;
        latencies.push(back.latency());
        frame = back;
    }
    Ok(latencies)
}

/// Runs both cameras; returns their latencies, and the timer's ticks meanwhile.
///
/// # Errors
/// The device refused something.
pub(crate) async fn run(device: Device, pictures: usize) -> Result<(Vec<Duration>, u32)> {
    let model = builtin::model("mobilenet_v1_0.25_128")?;
    let compilation = device.compile(&model, PrepareOptions::default())?;
    let options = BurstOptions { depth: 2, ..BurstOptions::default() };
    let burst = AsyncBurst::new(compilation.burst(&options)?)?;
    let cameras =
        [(); 2].map(|()| tokio::spawn(camera(burst.clone(), compilation.clone(), pictures)));
    let (mut latencies, mut ticks) = (Vec::new(), 0);
    let mut timer = tokio::time::interval(Duration::from_millis(1));
    for mut camera in cameras {
        loop {
            tokio::select! {
                _ = timer.tick() => ticks += 1,
                ended = &mut camera => {
                    latencies.extend(ended.unwrap_or_else(|_| Ok(Vec::new()))?);
                    break;
                }
            }
        }
    }
    latencies.sort_unstable();
    Ok((latencies, ticks))
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example for the command line")]
async fn main() -> Result<()> {
    let (latencies, ticks) = run(Device::embedded("nnburst-cpu")?, 500).await?;
    let middle = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
    println!("{} pictures, {middle:?} each in the middle; {ticks} ticks", latencies.len());
    Ok(())
}
