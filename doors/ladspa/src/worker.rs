//! The thread that cleans blocks: it loads the networks, runs them, and has a driver that died
//! started again.
//!
//! Nobody wakes it, as that would be a system call of `run`'s: it looks for blocks by itself, at
//! least every [`NAP`].

use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nnburst::{BurstOptions, Wait};
use nnburst_denoise::{BLOCK, DELAY, DenoiseError, Denoiser};
use nnburst_doors_common::{DoorOptions, Log, Supervised, spawn_thread};

use crate::link::{Block, Cleaned, Heard, WorkerLink};

/// The longest pause while sound comes, a part of the time that a block has; and the shortest.
const NAP: Duration = Duration::from_millis(1);
const SHORT_NAP: Duration = Duration::from_micros(20);
/// The pause while none comes. The first block after it is still in time.
const LONG_NAP: Duration = Duration::from_millis(5);
/// Without a block for so long no sound comes.
const QUIET: Duration = Duration::from_secs(2);
/// A driver that takes so long for a block has stopped.
const STOPPED: Duration = Duration::from_millis(250);

/// Starts the worker of a stream.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn start<const CHANNELS: usize>(
    link: WorkerLink<CHANNELS>,
    models: [PathBuf; 2],
    options: DoorOptions,
    log: Log,
) -> io::Result<JoinHandle<()>> {
    spawn_thread("nnburst-ladspa", move || {
        let make = move |device: &nnburst::Device, options: &DoorOptions| {
            // There are milliseconds left, and the host's thread may be polling for this one.
            let wait = if options.wait == Wait::Auto { Wait::Block } else { options.wait };
            let burst = BurstOptions { wait, timeout: Some(STOPPED), ..options.burst() };
            let [first, second] = &models;
            let mut made = Vec::new();
            for _ in 0..CHANNELS {
                made.push(Denoiser::open(device, first, second, &burst)?);
            }
            Ok(made)
        };
        let made = Supervised::new(options, log.clone(), make);
        Worker { link, made, log, absence: None, failure: None, course: None }.run();
    })
}

struct Worker<const CHANNELS: usize> {
    link: WorkerLink<CHANNELS>,
    /// One for each channel.
    made: Supervised<Vec<Denoiser>>,
    log: Log,
    /// Why there are no networks, and why a block failed, as it was logged last.
    absence: Option<String>,
    failure: Option<String>,
    course: Option<Course>,
}

/// The block that the networks heard last.
#[derive(Clone, Copy, Debug)]
struct Course {
    session: u64,
    next: u64,
    /// Blocks that are still to be heard before a window is full.
    to_fill: usize,
}

impl<const CHANNELS: usize> Worker<CHANNELS> {
    fn run(&mut self) {
        let _ = self.networks();
        self.link.shared.set_loaded();
        let mut pauses = Pauses::new();
        while !self.link.shared.is_over() {
            let Ok(block) = self.link.heard.pop() else {
                pauses.nothing_there();
                continue;
            };
            let (session, number) = (block.session, block.number);
            let samples = self.clean(&block);
            // As long as the ring of blocks heard, so that there is room.
            let _ = self.link.cleaned.push(Cleaned { session, number, samples });
            pauses.something_there();
        }
    }

    /// Returns whether there are networks; a new reason why not is logged.
    fn networks(&mut self) -> bool {
        let why = match self.made.get() {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if why != self.absence {
            match &why {
                Some(why) => self.log.error(&format!("the sound passes as it is: {why}")),
                None => self.log.summary("the sound is cleaned again"),
            }
        }
        self.absence = why;
        self.absence.is_none()
    }

    fn clean(&mut self, block: &Heard<CHANNELS>) -> Option<Block<CHANNELS>> {
        if !self.networks() {
            self.course = None;
            return None;
        }
        match self.try_clean(block) {
            Ok(samples) => {
                self.failure = None;
                samples
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    fn try_clean(
        &mut self,
        block: &Heard<CHANNELS>,
    ) -> Result<Option<Block<CHANNELS>>, DenoiseError> {
        let Ok(networks) = self.made.get() else { return Ok(None) };
        let goes_on =
            |course: &Course| course.session == block.session && course.next == block.number;
        let mut course = match self.course.take().filter(goes_on) {
            Some(course) => course,
            None => {
                networks.iter_mut().try_for_each(Denoiser::reset)?;
                // Before its first block a session was silent, as the window is.
                let to_fill = if block.number == 0 { 0 } else { DELAY };
                Course { session: block.session, next: block.number, to_fill }
            }
        };
        course.next += 1;
        if !self.link.shared.is_wanted(block.number) {
            for (network, heard) in networks.iter_mut().zip(&block.samples) {
                network.skip(heard);
            }
            course.to_fill = DELAY;
            self.course = Some(course);
            return Ok(None);
        }
        let mut clean = [[0.0; BLOCK]; CHANNELS];
        for ((network, heard), clean) in networks.iter_mut().zip(&block.samples).zip(&mut clean) {
            network.push(heard, clean)?;
        }
        if !clean.as_flattened().iter().all(|sample| sample.is_finite()) {
            // The networks' state is corrupt: the next block begins anew.
            return Ok(None);
        }
        let is_whole = course.to_fill == 0;
        course.to_fill = course.to_fill.saturating_sub(1);
        self.course = Some(course);
        Ok(is_whole.then_some(clean))
    }

    /// After an error the networks begin anew; a driver that died is started again.
    fn failed(&mut self, error: &DenoiseError) {
        self.course = None;
        if let DenoiseError::Runtime(error) = error
            && self.made.recover(error).is_some()
        {
            return;
        }
        // Once, however many blocks fail of it.
        let failure = Some(error.to_string());
        if failure != self.failure {
            self.log.warning(&format!("the sound passes as it is for now: {error}"));
        }
        self.failure = failure;
    }
}

/// The pauses of the worker.
struct Pauses {
    /// When the last block was done.
    done: Instant,
}

impl Pauses {
    fn new() -> Self {
        Self { done: Instant::now() }
    }

    fn something_there(&mut self) {
        self.done = Instant::now();
    }

    /// Short after a block, as the next one comes at once where a host renders a file.
    fn nothing_there(&self) {
        let idle = self.done.elapsed();
        let nap = if idle < QUIET { (idle / 2).clamp(SHORT_NAP, NAP) } else { LONG_NAP };
        std::thread::sleep(nap);
    }
}
