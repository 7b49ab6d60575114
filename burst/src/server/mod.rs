//! The driver's end of a burst: a thread that takes requests out of one queue, has them executed,
//! and puts answers into the other.
//!
//! Whatever the client sends, the thread answers once per packet and lives on: malformed packets
//! get `GENERAL_FAILURE`, unknown slots `INVALID_ARGUMENT`. Only a queue whose counters lie ends
//! the burst, because nothing that follows could be believed.
//!
//! The thread alone holds the executor and its cache, so the way of a frame takes no lock. Who
//! frees a slot or tears the burst down leaves word (`mailbox`) and interrupts the thread's wait.
//!
//! A client frees a slot before it uses the number again, and the packet that uses it is published
//! after [`BurstServer::free_memory`](nnburst_hal::BurstContext::free_memory) returned; so the
//! thread, which looks for word after it saw a packet and before it runs it, never runs a packet on
//! a memory that was freed before.

mod cache;
mod executor;
mod listener;
mod live;
mod mailbox;

use std::sync::Arc;

use nnburst_fmq::{Descriptor, PeerWatch};
use nnburst_hal::process::{Origin, without_signals};
use nnburst_hal::{
    BurstCallback, BurstContext, BurstFigures, BurstOptions, BurstTerms, HalError, Latencies,
    PreparedModel, RealTimeProfile, Result,
};

pub use cache::{MAX_SLOTS, SlotCache};
pub use executor::{BurstExecutor, PreparedModelExecutor};
use listener::Listener;
use live::Live;
use mailbox::Mailbox;

use crate::channel::{ChannelError, PollingWindow, Receiver, attach, packet_storage};
use crate::packet::{BurstAnswer, BurstRequest, Dialect, RequestDatum, ResultDatum};
use crate::realtime;
use crate::sync::{self, JoinHandle};

/// Most requests of one burst in flight, whatever the client asks.
const MAX_DEPTH: u32 = 64;

/// A running burst, on the driver's side. Dropping it ends it: the thread is woken, finishes the
/// request it is at, and is joined.
#[derive(Debug)]
pub struct BurstServer {
    mailbox: Arc<Mailbox>,
    live: Arc<Live>,
    terms: BurstTerms,
    thread: Option<JoinHandle<()>>,
    origin: Origin,
}

impl BurstServer {
    /// Starts a burst with an executor of the driver's own.
    ///
    /// `peer`, where the driver has one, ends the burst's thread when the client dies; without it
    /// the owner drops the server when the client's connection closes.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` for a queue that can't be used (not a synchronised queue of such elements,
    /// no event flag, memory that could vanish); `RESOURCE_EXHAUSTED_TRANSIENT` where there is no
    /// thread, memory or descriptor to be had.
    pub fn create(
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        executor: Box<dyn BurstExecutor>,
        options: &BurstOptions,
        peer: Option<&PeerWatch>,
    ) -> Result<Self> {
        let refuse = |which| move |error: ChannelError| error.of_queue(which);
        let [of_requests, of_results] = ["request queue", "result queue"].map(refuse);
        let requests = attach::<RequestDatum>(request_channel).map_err(of_requests)?;
        let results = attach::<ResultDatum>(result_channel).map_err(of_results)?;

        // Every request in flight must find room for an answer of two elements at least.
        let fitting = u32::try_from(results.capacity() / 2).unwrap_or(u32::MAX).max(1);
        let depth = match options.extended {
            true => options.depth.clamp(1, MAX_DEPTH).min(fitting),
            false => 1,
        };
        let window = options
            .polling_window
            .map_or_else(|| PollingWindow::for_preference(options.preference), PollingWindow::of);
        let mailbox = Arc::new(Mailbox::default());
        let live = Arc::new(Live::new());
        let mut requests = Receiver::new(requests, window, depth > 1).map_err(of_requests)?;
        let answer = packet_storage(results.capacity()).map_err(of_results)?;
        let mut results = results.into_producer();
        requests.set_cancel(mailbox.interrupt());
        results.set_cancel(mailbox.interrupt());
        if let Some(peer) = peer {
            requests.set_peer(peer);
            results.set_peer(peer);
        }
        let dialect = if options.extended { Dialect::Extended } else { Dialect::Android };
        if options.extended {
            requests.expect_processor();
        }
        let listener = Listener {
            requests,
            results,
            executor,
            callback,
            mailbox: Arc::clone(&mailbox),
            live: Arc::clone(&live),
            dialect,
            pipelined: depth > 1,
            request: BurstRequest::default(),
            answer: BurstAnswer::default(),
            packet: answer,
            missing: Vec::new(),
            used: Vec::new(),
            number: 0,
            warms_up: false,
        };
        let (thread, warnings) = start(listener, options.real_time.clone())?;
        let terms = BurstTerms { extended: options.extended, depth, warnings };
        Ok(Self { mailbox, live, terms, thread: Some(thread), origin: Origin::here() })
    }

    /// Starts a burst for any prepared model; see [`PreparedModelExecutor`].
    ///
    /// # Errors
    /// As [`BurstServer::create`].
    pub fn for_prepared_model(
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        model: Arc<dyn PreparedModel>,
        options: &BurstOptions,
    ) -> Result<Self> {
        let executor = Box::new(PreparedModelExecutor::new(model));
        Self::create(callback, request_channel, result_channel, executor, options, None)
    }

    /// Returns whether the burst's thread still serves. It ends by itself only when the client is
    /// gone or lied.
    #[cfg(not(loom))] // loom's handles can't tell
    pub fn is_serving(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl BurstContext for BurstServer {
    fn free_memory(&self, slot: i32) {
        if self.origin.is_here() {
            self.mailbox.post(|pending| pending.free(slot));
        }
    }

    fn terms(&self) -> BurstTerms {
        self.terms.clone()
    }

    fn figures(&self) -> Option<BurstFigures> {
        Some(self.live.figures())
    }

    fn times(&self) -> Option<Latencies> {
        Some(self.live.times())
    }
}

impl Drop for BurstServer {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // The thread, and whoever locks the mailbox, are the parent's.
            std::mem::forget(self.thread.take());
            return;
        }
        self.mailbox.post(|pending| pending.stop = true);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != sync::current().id()
        {
            // An error would be a panic of the thread, which has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Starts the thread; returns once its real-time profile is applied, with what the system refused.
fn start(listener: Listener, profile: RealTimeProfile) -> Result<(JoinHandle<()>, Vec<String>)> {
    let (ready, applied) = sync::channel();
    let run = move || {
        // Nobody listens any more only if the creator died, and then nobody needs the warnings.
        let _ = ready.send(realtime::apply(&profile));
        listener.run();
    };
    let thread = sync::Builder::new().name("nnburst-burst".into());
    let thread = without_signals(|| thread.spawn(run))
        .map_err(|error| HalError::exhausted(format!("no thread for the burst: {error}")))?;
    let warnings = applied.recv().unwrap_or_default();
    Ok((thread, warnings))
}
