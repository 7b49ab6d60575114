//! Fuzz bodies with a live end: a server that gets any elements as requests, a controller that gets
//! any elements as answers.
#![expect(clippy::unwrap_used, reason = "a broken promise stops the fuzzer")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::{Pod, pod_read_unaligned};
use nnburst_fmq::{Queue, QueueError, Wait};
use nnburst_hal::{BurstOptions, BurstTerms, ErrorStatus, ExecutionOptions, Memory, PreparedModel};

use super::{AddOne, Hooked, SlotTable};
use crate::packet::{
    BurstAnswer, BurstPool, Dialect, RequestDatum, ResultDatum, deserialize_answer,
    serialize_request,
};
use crate::{BurstController, ControllerOptions, PollingWindow};

/// Long enough to tell a hang from a busy machine.
const HANG: Duration = Duration::from_secs(60);
const ELEMENTS: usize = 64;

/// Packets out of bytes: one byte says how many elements follow.
fn packets<D: Pod>(mut bytes: &[u8]) -> impl Iterator<Item = Vec<D>> {
    std::iter::from_fn(move || {
        let (&count, rest) = bytes.split_first()?;
        let wanted = usize::from(count).saturating_mul(24);
        let (packet, rest) = rest.split_at(wanted.min(rest.len()));
        bytes = rest;
        Some(packet.chunks_exact(24).map(pod_read_unaligned).collect())
    })
}

/// A running server answers whatever comes, once per packet, and then still executes an honest
/// request.
///
/// # Panics
/// If an answer is missing or malformed, or the honest request fails.
pub fn live_server(bytes: &[u8]) {
    let memories = [Memory::ashmem(64).unwrap(), Memory::ashmem(64).unwrap()];
    let request = AddOne::request(&memories[0], &memories[1], 64);
    let requests = Queue::<RequestDatum>::builder(ELEMENTS).event_flag(true).create().unwrap();
    let results = Queue::<ResultDatum>::builder(ELEMENTS).event_flag(true).create().unwrap();
    let channels = [requests.descriptor().unwrap(), results.descriptor().unwrap()];
    let [request_channel, result_channel] = channels;
    let model = AddOne::new();
    let extended = bytes.first().is_some_and(|byte| byte & 1 == 1);
    let options = BurstOptions { extended, ..BurstOptions::default() };
    let callback = Arc::new(SlotTable::new(memories));
    let context = model
        .configure_execution_burst(callback, request_channel, result_channel, options)
        .unwrap();
    let dialect = if extended { Dialect::Extended } else { Dialect::Android };

    let mut honest = Vec::new();
    let pools = [BurstPool::Slot(0), BurstPool::Slot(1)];
    let how = ExecutionOptions::default();
    serialize_request(&request, &pools, &how, dialect, &mut honest).unwrap();
    let mut requests = requests.into_producer();
    let mut results = results.into_consumer();
    let mut answer = BurstAnswer::default();
    for packet in packets(bytes).chain([honest]) {
        if packet.is_empty() || packet.len() > ELEMENTS {
            continue;
        }
        requests.try_write(&packet).unwrap();
        results.wait_readable(1, Wait::default().within(HANG)).unwrap();
        let mut elements = vec![ResultDatum::default(); results.available_to_read().unwrap()];
        results.try_read(&mut elements).unwrap();
        deserialize_answer(&elements, dialect, &mut answer).unwrap();
        for slot in [0, 1, i32::from(packet.len() > 3)] {
            context.free_memory(slot);
        }
    }
    assert_eq!(answer.status, ErrorStatus::None);
}

/// A controller gets whatever comes as answers: every frame ends, and none by a panic or a hang.
///
/// # Panics
/// If a frame has not come back once the burst is at rest.
pub fn live_controller(bytes: &[u8]) {
    let depth = u32::from(bytes.first().copied().unwrap_or(0)) % 4 + 1;
    let hooked = Hooked::with(BurstTerms { extended: true, depth, ..BurstTerms::default() });
    let options = ControllerOptions {
        queue_elements: ELEMENTS,
        burst: BurstOptions { extended: true, depth, ..BurstOptions::default() },
        ..ControllerOptions::default()
    };
    let mut burst = BurstController::configure(hooked.model(), &options, None).unwrap();
    burst.set_polling_window(PollingWindow::Zero);
    let [_requests, results] = hooked.take_queues().unwrap();
    let mut results = Queue::<ResultDatum>::attach(results).unwrap().into_producer();
    let memory = Memory::ashmem(64).unwrap();
    let request = AddOne::request(&memory, &memory, 64);
    for packet in packets(bytes) {
        // Nobody takes the requests, so their queue fills; that is a reason to fall back, and to
        // stop.
        let frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
        let submitted = burst.try_submit(frame).is_ok();
        match results.try_write(&packet) {
            Ok(()) | Err(QueueError::Full { .. } | QueueError::TooLarge { .. }) => {}
            Err(error) => unreachable(error),
        }
        let frame = burst.wait_until(Instant::now());
        if frame.is_none() && !submitted && burst.closed().is_none() {
            burst.forget();
        }
    }
    assert!(burst.in_flight() <= usize::try_from(depth).unwrap());
}

#[expect(clippy::panic, reason = "a broken promise stops the fuzzer")]
fn unreachable(error: QueueError) -> ! {
    panic!("the controller broke its queue: {error}");
}
