//! Whole instances, as hosts have them, on the embedded driver.

use std::path::Path;
use std::time::{Duration, Instant};

use nnburst_conformance::shared_dir;
use nnburst_hal::testing::CountingAllocator;

use super::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const RATE: usize = 16_000;

/// An instance with its ports' memory.
struct Instance<const CHANNELS: usize> {
    handle: Handle,
    controls: Box<[f32; 4]>,
}

impl<const CHANNELS: usize> Instance<CHANNELS> {
    fn new(rate: u64, models: [PathBuf; 2]) -> Self {
        let rate = Rate::from_hz(rate).unwrap();
        let plugin = Plugin::<CHANNELS>::with(rate, DoorOptions::default(), models, log()).unwrap();
        let handle = Box::into_raw(Box::new(plugin)).cast();
        let mut controls = Box::new([1.0, NO_LIMIT_DB, -1.0, -1.0]);
        for (at, value) in controls.iter_mut().enumerate() {
            let port = c_ulong::try_from(2 * CHANNELS + at).unwrap();
            // SAFETY: an instance of this test's, a value that lives as long.
            unsafe { connect_port::<CHANNELS>(handle, port, value) };
        }
        // SAFETY: as above.
        unsafe { activate::<CHANNELS>(handle) };
        Self { handle, controls }
    }

    /// Runs blocks in place, each channel in its own buffer.
    fn run(&mut self, sound: &mut [Vec<f32>; CHANNELS], block: usize) {
        let samples = sound[0].len();
        let mut at = 0;
        while at < samples {
            let count = block.min(samples - at);
            for (channel, samples) in sound.iter_mut().enumerate() {
                let samples = &raw mut samples[at];
                for port in [channel, CHANNELS + channel] {
                    let port = c_ulong::try_from(port).unwrap();
                    // SAFETY: an instance of this test's, and its buffer.
                    unsafe { connect_port::<CHANNELS>(self.handle, port, samples) };
                }
            }
            // SAFETY: as above; the buffers have `count` samples more.
            unsafe { run::<CHANNELS>(self.handle, c_ulong::try_from(count).unwrap()) };
            at += count;
        }
    }

    fn latency(&self) -> f32 {
        self.controls[2]
    }

    fn misses(&self) -> f32 {
        self.controls[3]
    }
}

impl<const CHANNELS: usize> Drop for Instance<CHANNELS> {
    fn drop(&mut self) {
        // SAFETY: an instance of this test's, not used any more.
        unsafe { cleanup::<CHANNELS>(self.handle) };
    }
}

fn networks(shared: &Path) -> [PathBuf; 2] {
    ["dtln_float_1", "dtln_float_2"].map(|name| shared.join(name).join("model.tflite"))
}

fn recording(path: &Path) -> Vec<f32> {
    let mut reader = hound::WavReader::open(path).unwrap();
    reader.samples::<i16>().map(|sample| f32::from(sample.unwrap()) / 32768.0).collect()
}

/// What a block's place in the clean stream is behind what was heard.
const BEHIND_GOLDEN: usize = 384;

#[test]
fn the_recording_comes_out_as_the_interpreter_cleans_it_whatever_the_blocks() {
    let Some(shared) = shared_dir("models") else { return };
    let heard = recording(&shared.join("dtln_pipeline/speech_noisy.wav"));
    let golden = recording(&shared.join("dtln_pipeline/denoised_float.wav"));
    let mut first: Option<Vec<f32>> = None;
    for block in [8192, 1024, 480, 128, 7, 1] {
        let mut instance = Instance::<1>::new(16_000, networks(&shared));
        let mut sound = [heard[..3 * RATE].to_vec()];
        instance.run(&mut sound, block);
        let [sound] = sound;
        assert_eq!((instance.latency(), instance.misses()), (768.0, 0.0), "blocks of {block}");
        let clean = &sound[768 - BEHIND_GOLDEN..];
        let apart = clean.iter().zip(&golden).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart <= 1e-4, "blocks of {block}: {apart} apart");
        assert!(clean.iter().any(|sample| sample.abs() > 0.05), "there is speech in it");
        match &first {
            None => first = Some(sound),
            Some(first) => assert!(*first == sound, "blocks of {block} differ"),
        }
    }
}

#[test]
fn channels_are_cleaned_apart_and_activation_forgets() {
    let Some(shared) = shared_dir("models") else { return };
    let heard = &recording(&shared.join("dtln_pipeline/speech_noisy.wav"))[..2 * RATE];
    let mut mono = Instance::<1>::new(16_000, networks(&shared));
    let mut alone = [heard.to_vec()];
    mono.run(&mut alone, 1024);
    let quiet: Vec<f32> = heard.iter().rev().map(|sample| sample / 4.0).collect();
    let mut stereo = Instance::<2>::new(16_000, networks(&shared));
    for round in 0..2 {
        let mut both = [heard.to_vec(), quiet.clone()];
        stereo.run(&mut both, 480);
        assert!(both[0] == alone[0], "round {round}: the other channel is none of its business");
        assert!(both[1] != both[0] && stereo.misses() == 0.0);
        // SAFETY: an instance of this test's.
        unsafe { activate::<2>(stereo.handle) };
    }
}

#[test]
fn at_48_khz_it_is_the_same_speech() {
    let Some(shared) = shared_dir("models") else { return };
    let heard = &recording(&shared.join("dtln_pipeline/speech_noisy.wav"))[..2 * RATE];
    let golden = recording(&shared.join("dtln_pipeline/denoised_float.wav"));
    // Three samples for one, by the filter that the plugin has as well.
    let mut up = crate::resample::Up::new();
    let mut wide = [Vec::new()];
    for &sample in heard {
        up.push(sample);
        wide[0].extend((0..3).map(|phase| up.sample(phase)));
    }
    let mut instance = Instance::<1>::new(48_000, networks(&shared));
    instance.run(&mut wide, 1024);
    assert_eq!((instance.latency(), instance.misses()), (2400.0, 0.0));
    // Each way delays by 48 samples at 48 kHz, and there were three ways.
    let behind = 3 * 48 + 3 * (768 - BEHIND_GOLDEN);
    let clean = wide[0].iter().skip(behind).step_by(3);
    let (mut error, mut speech) = (0.0, 0.0);
    for (clean, golden) in clean.zip(&golden) {
        error += f64::from(clean - golden).powi(2);
        speech += f64::from(*golden).powi(2);
    }
    // What the filters take away and the networks make of that.
    assert!(error < speech / 50.0, "{} dB", 10.0 * (speech / error).log10());
}

#[test]
fn an_instance_is_there_at_once_and_run_allocates_nothing() {
    let Some(shared) = shared_dir("models") else { return };
    let heard = &recording(&shared.join("dtln_pipeline/speech_noisy.wav"))[..RATE];
    // The shortest of some, as the machine may be busy.
    let times = (0..5).map(|_| {
        let begin = Instant::now();
        let instance = Instance::<2>::new(48_000, networks(&shared));
        let took = begin.elapsed();
        drop(instance);
        took
    });
    let shortest = times.min().unwrap();
    assert!(shortest < Duration::from_millis(5), "{shortest:?}");

    let mut instance = Instance::<2>::new(48_000, networks(&shared));
    for block in [480, 7, 8192] {
        let mut sound = [heard.to_vec(), heard.to_vec()];
        let before = CountingAllocator::calls_of_thread();
        instance.run(&mut sound, block);
        let calls = CountingAllocator::calls_of_thread() - before;
        assert_eq!((calls.allocations, calls.releases), (0, 0), "blocks of {block}");
    }
}

#[test]
fn sound_that_is_no_sound_does_no_lasting_harm() {
    let Some(shared) = shared_dir("models") else { return };
    let heard = recording(&shared.join("dtln_pipeline/speech_noisy.wav"))[..RATE].to_vec();
    let mut instance = Instance::<1>::new(16_000, networks(&shared));
    let mut hostile = vec![f32::NAN, f32::INFINITY, f32::MAX, -f32::MAX, 1e-42, 0.0];
    hostile.resize(4096, f32::MAX);
    instance.run(&mut [hostile], 100);
    let mut sound = [heard.clone()];
    instance.run(&mut sound, 100);
    // Half a second later all is forgotten but the networks' state, which is one of numbers.
    let late = &sound[0][RATE / 2..];
    assert!(late.iter().all(|sample| sample.abs() < 1.0), "it is speech");
    let energy = |samples: &[f32]| samples.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    assert!(energy(late) > energy(&heard[RATE / 2 - 768..RATE - 768]) / 100.0, "not silence");
}

#[test]
fn without_networks_the_sound_passes_as_it_is() {
    let nowhere = ["/nowhere/1", "/nowhere/2"].map(PathBuf::from);
    let mut instance = Instance::<1>::new(16_000, nowhere);
    let heard: Vec<f32> = (0..RATE).map(|at| (at as f32 / 50.0).sin()).collect();
    let mut sound = [heard.clone()];
    instance.run(&mut sound, 1024);
    let settled = 768 + 128;
    assert_eq!(sound[0][settled..], heard[128..RATE - 768]);
    assert!(instance.misses() > 100.0);
}

#[test]
fn ports_that_are_not_connected_are_left_out() {
    let nowhere = ["/nowhere/1", "/nowhere/2"].map(PathBuf::from);
    let rate = Rate::from_hz(48_000).unwrap();
    let plugin = Plugin::<1>::with(rate, DoorOptions::default(), nowhere, log()).unwrap();
    let handle: Handle = Box::into_raw(Box::new(plugin)).cast();
    let mut latency = 0.0;
    // SAFETY: an instance of this test's, and ports of which one leads to a value.
    unsafe {
        run::<1>(handle, 64);
        connect_port::<1>(handle, 4, &raw mut latency);
        connect_port::<1>(handle, 99, &raw mut latency);
        run::<1>(handle, 0);
        cleanup::<1>(handle);
        run::<1>(null_mut(), 64);
        cleanup::<1>(null_mut());
    }
    assert_eq!(latency, 2400.0);
}
