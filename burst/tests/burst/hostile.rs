//! Peers that break the queues themselves, or stop half-way.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst_burst::packet::{
    BurstAnswer, BurstPool, Dialect, RequestDatum, ResultDatum, ResultItem, deserialize_answer,
    serialize_request,
};
use nnburst_burst::testing::{AddOne, Hooked, SlotTable};
use nnburst_burst::{
    BurstController, BurstError, BurstServer, Closed, ControllerOptions, Fallback,
    PreparedModelExecutor,
};
use nnburst_fmq::{Descriptor, NOT_EMPTY, Queue, QueueError, Wait};
use nnburst_hal::{BurstContext, BurstOptions, BurstTerms, ErrorStatus, ExecutionOptions};

use crate::support::memory;

/// Overwrites a counter of a queue: 0 what was read, 1 what was written.
fn set_counter(queue: &Descriptor, which: usize, value: u64) {
    let grantor = queue.data.grantors[which];
    let file = queue.fds[grantor.fd_index as usize].as_fd();
    rustix::io::pwrite(file, &value.to_ne_bytes(), u64::from(grantor.offset)).unwrap();
}

/// A server in this process, and its queues.
fn server(
    results: usize,
    options: &BurstOptions,
) -> (BurstServer, [Descriptor; 2], Vec<RequestDatum>) {
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let mut packet = Vec::new();
    let pools = [BurstPool::Slot(0), BurstPool::Slot(1)];
    let request = AddOne::request(&input, &output, 4);
    let how = ExecutionOptions::default();
    serialize_request(&request, &pools, &how, Dialect::Android, &mut packet).unwrap();

    let requests = Queue::<RequestDatum>::builder(64).event_flag(true).create().unwrap();
    let results = Queue::<ResultDatum>::builder(results).event_flag(true).create().unwrap();
    let both = || [requests.descriptor().unwrap(), results.descriptor().unwrap()];
    let [request_channel, result_channel] = both();
    let executor = Box::new(PreparedModelExecutor::new(AddOne::new()));
    let callback = Arc::new(SlotTable::new([input, output]));
    let server =
        BurstServer::create(callback, request_channel, result_channel, executor, options, None);
    (server.unwrap(), both(), packet)
}

#[test]
fn a_client_whose_counter_lies_ends_its_own_burst_and_is_told() {
    for lie in [64 * 24 + 24, 25, u64::MAX - 23] {
        let (server, [requests, results], _) = server(64, &BurstOptions::default());
        let queue = Queue::<RequestDatum>::attach(requests.try_clone().unwrap()).unwrap();
        set_counter(&requests, 1, lie);
        queue.event_flag().unwrap().wake(NOT_EMPTY).unwrap();
        let mut results = Queue::<ResultDatum>::attach(results).unwrap().into_consumer();
        results.wait_readable(2, Wait::Block.within(Duration::from_secs(10))).unwrap();
        let mut elements = [ResultDatum::default(); 2];
        results.try_read(&mut elements).unwrap();
        let mut answer = BurstAnswer::default();
        deserialize_answer(&elements, Dialect::Android, &mut answer).unwrap();
        assert_eq!(answer.status, ErrorStatus::GeneralFailure, "{lie}");
        let patience = Instant::now() + Duration::from_secs(10);
        while server.is_serving() {
            assert!(Instant::now() < patience, "the thread goes on: {lie}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_driver_whose_counter_lies_closes_the_burst() {
    for lie in [1024 * 24 + 24, 7, u64::MAX - 23] {
        let hooked = Hooked::with(BurstTerms::default());
        // Polling: nobody would wake a sleeper, and without a watch over the driver it would sleep
        // on.
        let polling_window = Some(Duration::MAX);
        let options = ControllerOptions { polling_window, ..ControllerOptions::default() };
        let mut burst = BurstController::configure(&hooked, &options, None).unwrap();
        let [_requests, results] = hooked.take_queues().unwrap();
        let memory = memory(&[0; 4]);
        let request = AddOne::request(&memory, &memory, 4);
        let mut frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
        let closed = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                set_counter(&results, 1, lie);
            });
            burst.execute_frame(&mut frame).map(|_| ()).unwrap_err()
        });
        let BurstError::Closed(why @ Closed::Queue(QueueError::PeerLied(_))) = closed else {
            panic!("{lie}: {closed:?}");
        };
        assert_eq!(burst.closed(), Some(why));
        let refused = burst.execute(&request, &ExecutionOptions::default()).unwrap_err();
        assert_eq!(refused, Fallback::Closed(why));
    }
}

#[test]
fn a_client_that_stops_reading_holds_up_itself_alone() {
    let options = BurstOptions { extended: true, depth: 4, ..BurstOptions::default() };
    // Room for one answer of 5 elements, and a bit.
    let (server, [requests, results], packet) = server(8, &options);
    assert_eq!(server.terms().depth, 4);
    let mut requests = Queue::<RequestDatum>::attach(requests).unwrap().into_producer();
    let mut results = Queue::<ResultDatum>::attach(results).unwrap().into_consumer();
    for _ in 0..4 {
        requests.try_write(&packet).unwrap();
    }
    results.wait_readable(1, Wait::Block.within(Duration::from_secs(10))).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    // The thread waits for room, and still listens to others.
    server.free_memory(0);
    let mut answer = BurstAnswer::default();
    for _ in 0..4 {
        results.wait_readable(1, Wait::Block.within(Duration::from_secs(10))).unwrap();
        let mut elements = vec![ResultDatum::default(); results.available_to_read().unwrap()];
        results.try_read(&mut elements).unwrap();
        deserialize_answer(&elements, Dialect::Extended, &mut answer).unwrap();
        assert_eq!(answer.status, ErrorStatus::None);
    }
    // And once more, to be torn down while it waits for room.
    for _ in 0..4 {
        requests.try_write(&packet).unwrap();
    }
    results.wait_readable(1, Wait::Block.within(Duration::from_secs(10))).unwrap();
    drop(server);
}

#[test]
fn more_requests_at_once_than_agreed_are_all_answered_or_one_malformed_packet() {
    const SENT: usize = 5;
    let (done, failed) = (ErrorStatus::None, ErrorStatus::GeneralFailure);
    for (depth, want) in [(2, vec![done; SENT]), (1, vec![failed])] {
        let options = BurstOptions { extended: true, depth, ..BurstOptions::default() };
        let (server, [requests, results], packet) = server(64, &options);
        assert_eq!(server.terms().depth, depth);
        let mut requests = Queue::<RequestDatum>::attach(requests).unwrap().into_producer();
        let mut results = Queue::<ResultDatum>::attach(results).unwrap().into_consumer();
        requests.try_write(&packet.repeat(SENT)).unwrap();
        let mut statuses = || {
            results.wait_readable(2, Wait::Block.within(Duration::from_secs(10))).unwrap();
            let mut elements = vec![ResultDatum::default(); results.available_to_read().unwrap()];
            results.try_read(&mut elements).unwrap();
            let status = |element: &ResultDatum| match element.item() {
                Some(ResultItem::PacketInformation { status, .. }) => {
                    Some(ErrorStatus::try_from(status).unwrap())
                }
                _ => None,
            };
            elements.iter().filter_map(status).collect::<Vec<_>>()
        };
        let mut got = Vec::new();
        while got.len() < want.len() {
            got.extend(statuses());
        }
        assert_eq!(got, want, "depth {depth}");
        requests.try_write(&packet).unwrap();
        assert_eq!(statuses(), [done], "and the burst goes on");
    }
}
