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
use nnburst_fmq::{Consumer, Descriptor, NOT_EMPTY, Queue, QueueError, Wait};
use nnburst_hal::{
    BurstContext, BurstOptions, BurstTerms, ErrorStatus, ExecutionOptions, TimePoint,
};

use crate::support::{HANG, memory};

/// Overwrites a counter of a queue: 0 what was read, 1 what was written.
fn set_counter(queue: &Descriptor, which: usize, value: u64) {
    let grantor = queue.data.grantors[which];
    let file = queue.fds[grantor.fd_index as usize].as_fd();
    nix::sys::uio::pwrite(file, &value.to_ne_bytes(), i64::from(grantor.offset)).unwrap();
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

/// Counters of a request queue that no honest client could have written.
const LIES: [u64; 3] = [64 * 24 + 24, 25, u64::MAX - 23];

fn waits_for(window: Duration) -> BurstOptions {
    BurstOptions { polling_window: Some(window), ..BurstOptions::default() }
}

/// Returns whether the client is told within `time` that the burst has failed.
fn is_told(results: &mut Consumer<ResultDatum>, time: Duration) -> bool {
    if results.wait_readable(2, Wait::Block.within(time)).is_err() {
        return false;
    }
    let mut elements = [ResultDatum::default(); 2];
    results.try_read(&mut elements).unwrap();
    let mut answer = BurstAnswer::default();
    deserialize_answer(&elements, Dialect::Android, &mut answer).unwrap();
    answer.status == ErrorStatus::GeneralFailure
}

/// The end of the burst that has told of a lie.
fn ends(server: &BurstServer) {
    let patience = Instant::now() + HANG;
    while server.is_serving() {
        assert!(Instant::now() < patience, "the thread goes on");
        std::thread::yield_now();
    }
}

/// A side that polls needs no wake to find a lie: its next look at the counter shows it.
#[test]
fn a_polling_driver_finds_its_clients_lie_at_the_next_poll_and_tells() {
    for lie in LIES {
        // Polling ends after a second without a packet: on a machine that keeps this thread from
        // its processor for so long, once more.
        let found = (0..10).any(|_| {
            let (server, [requests, results], _) = server(64, &waits_for(Duration::MAX));
            let mut results = Queue::<ResultDatum>::attach(results).unwrap().into_consumer();
            set_counter(&requests, 1, lie);
            let told = is_told(&mut results, HANG / 10);
            if told {
                ends(&server);
            }
            told
        });
        assert!(found, "{lie}");
    }
}

/// A side that sleeps finds a lie when it is woken, by whatever wakes it: the client's wake, or a
/// word of others.
#[test]
fn a_sleeping_driver_finds_its_clients_lie_when_it_wakes_and_tells() {
    for lie in LIES {
        for by_the_client in [true, false] {
            let (server, [requests, results], _) = server(64, &waits_for(Duration::ZERO));
            let queue = Queue::<RequestDatum>::attach(requests.try_clone().unwrap()).unwrap();
            let mut results = Queue::<ResultDatum>::attach(results).unwrap().into_consumer();
            set_counter(&requests, 1, lie);
            if by_the_client {
                queue.event_flag().unwrap().wake(NOT_EMPTY).unwrap();
            } else {
                server.free_memory(0);
            }
            assert!(is_told(&mut results, HANG), "{lie}");
            ends(&server);
        }
    }
}

/// A lie that wakes nobody harms nobody: the driver's thread sleeps as it does beside an idle
/// client, costs nothing, and goes when its burst does.
#[test]
fn a_sleeping_driver_is_not_harmed_by_a_lie_that_wakes_nobody() {
    for lie in LIES {
        let (server, [requests, _results], _) = server(64, &waits_for(Duration::ZERO));
        set_counter(&requests, 1, lie);
        drop(server); // joins the thread
    }
}

/// A client that executes on a driver which lies instead of answering.
fn executes_beside_a_lie(window: Duration, lie: u64, deadline: Duration) {
    let hooked = Hooked::with(BurstTerms::default());
    let polling_window = Some(window);
    let options = ControllerOptions { polling_window, ..ControllerOptions::default() };
    let mut burst = BurstController::configure(hooked.model(), &options, None).unwrap();
    let [_requests, results] = hooked.take_queues().unwrap();
    let memory = memory(&[0; 4]);
    let request = AddOne::request(&memory, &memory, 4);
    let mut frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    frame.set_deadline(Some(TimePoint::after(deadline)));
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(10));
            set_counter(&results, 1, lie);
        });
        burst.execute_frame(&mut frame).map(|_| ()).unwrap_err()
    });
    let refused = burst.execute(&request, &ExecutionOptions::default()).unwrap_err();
    let Fallback::Closed(why @ Closed::Queue(QueueError::PeerLied(_))) = refused else {
        panic!("{lie}: {refused:?}");
    };
    assert_eq!(burst.closed(), Some(why));
    // Where the lie came after the deadline only, the wait had ended before it.
    let in_time = ended == BurstError::Closed(why);
    assert!(in_time || (ended == BurstError::DeadlineMissed && deadline < HANG), "{ended:?}");
}

#[test]
fn a_driver_whose_counter_lies_closes_the_burst() {
    for lie in [1024 * 24 + 24, 7, u64::MAX - 23] {
        // Who polls finds it at the next poll, long before the deadline.
        executes_beside_a_lie(Duration::MAX, lie, HANG);
        // Who sleeps, and is not woken, when the wait ends.
        executes_beside_a_lie(Duration::ZERO, lie, Duration::from_secs(1));
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
    results.wait_readable(1, Wait::Block.within(HANG)).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    // The thread waits for room, and still listens to others.
    server.free_memory(0);
    let mut answer = BurstAnswer::default();
    for _ in 0..4 {
        results.wait_readable(1, Wait::Block.within(HANG)).unwrap();
        let mut elements = vec![ResultDatum::default(); results.available_to_read().unwrap()];
        results.try_read(&mut elements).unwrap();
        deserialize_answer(&elements, Dialect::Extended, &mut answer).unwrap();
        assert_eq!(answer.status, ErrorStatus::None);
    }
    // And once more, to be torn down while it waits for room.
    for _ in 0..4 {
        requests.try_write(&packet).unwrap();
    }
    results.wait_readable(1, Wait::Block.within(HANG)).unwrap();
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
            results.wait_readable(2, Wait::Block.within(HANG)).unwrap();
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
