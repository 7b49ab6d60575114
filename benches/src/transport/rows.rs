//! The table of what is measured.

use super::fmq::{Adaptive, Block, Fmq, Spin, SpinFlagged, Watched};
use super::libfmq::Libfmq;
use super::raw::{Atomic, Copying, Futex};
use super::socket::Seqpacket;
use super::threads::{Crossbeam, FmqPair, Pair, Rtrb};
use super::{Channel, Echo, Far, Flow, Message, Near, RoundTrip, Sink, eventfd};
use crate::Result;
use crate::link::Link;
use crate::shared::Shared;

/// The bare measurement that a row is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A cache line each way, polled.
    Atomic,
    /// The same, with 1 KiB copied in and out each way, at one place.
    Copy,
    /// A futex each way, slept on.
    Futex,
}

impl Probe {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Atomic, Self::Copy, Self::Futex];

    /// The probe's name as a transport.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Atomic => "raw-atomic",
            Self::Copy => "raw-copy",
            Self::Futex => "raw-futex",
        }
    }

    /// Returns whether both sides sleep in it.
    #[must_use]
    pub fn sleeps(self) -> bool {
        self == Self::Futex
    }
}

/// The making of the two sides.
#[derive(Clone, Copy)]
pub enum Way {
    /// The far side is another process, which joins over the link.
    Processes {
        /// Makes the measuring side.
        open: fn(&Link) -> Result<Box<dyn Near>>,
        /// Makes the answering side.
        join: fn(&Link) -> Result<Box<dyn Far>>,
    },
    /// The far side is a thread.
    Threads(fn() -> Result<Ends>),
}

/// Both sides of a row within one process.
pub type Ends = (Box<dyn Near>, Box<dyn Far + Send>);

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Threads(_)) { "Threads" } else { "Processes" })
    }
}

/// One line of the result.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// `round_trip` or `throughput`.
    pub bench: &'static str,
    /// The transport's name.
    pub transport: &'static str,
    /// `spin`, `block` or `adaptive`.
    pub wait: &'static str,
    /// Bytes per message.
    pub bytes: usize,
    /// Items per message: more than one is a batch.
    pub items: usize,
    /// The probe that it is compared with.
    pub probe: Probe,
    /// The making of its two sides.
    pub way: Way,
}

impl Row {
    /// 2, or 1 for threads.
    #[must_use]
    pub fn processes(&self) -> u32 {
        if matches!(self.way, Way::Threads(_)) { 1 } else { 2 }
    }

    /// Returns whether its samples are whole flows.
    #[must_use]
    pub fn is_throughput(&self) -> bool {
        self.bench == "throughput"
    }
}

/// The rows of the queue part, the three probes first and in the order of [`Probe::ALL`].
#[must_use]
pub fn rows() -> Vec<Row> {
    let mut rows = probes();
    rows.extend(polled());
    rows.extend(slept());
    rows.extend(flows());
    rows
}

type Single = [u64; 1];
type Line = [[u64; 8]; 1];
type Kilobyte = [[u64; 128]; 1];
/// The packet of a burst with a few operands: 42 elements of 24 bytes.
type Packet = [[u64; 3]; 42];
type Batch = [u64; 8];

fn probes() -> Vec<Row> {
    vec![
        round_trip::<Single, Atomic>("raw-atomic", "spin", Probe::Atomic),
        round_trip::<Kilobyte, Copying<Kilobyte>>("raw-copy", "spin", Probe::Copy),
        round_trip::<Single, Futex>("raw-futex", "block", Probe::Futex),
    ]
}

#[rustfmt::skip] // one row, one line
fn polled() -> Vec<Row> {
    vec![
        round_trip::<Single, Fmq<u64, 1, Spin>>("fmq", "spin", Probe::Atomic),
        round_trip::<Single, Fmq<u64, 1, SpinFlagged>>("fmq+flag", "spin", Probe::Atomic),
        round_trip::<Single, Fmq<u64, 1, Adaptive>>("fmq", "adaptive", Probe::Atomic),
        round_trip::<Single, Fmq<u64, 1, Watched<Spin>>>("fmq+watch", "spin", Probe::Atomic),
        round_trip::<Single, Fmq<u64, 1, Watched<Adaptive>>>("fmq+watch", "adaptive", Probe::Atomic),
        round_trip::<Single, Libfmq<Spin>>("libfmq-model", "spin", Probe::Atomic),
        #[cfg(feature = "peers")]
        round_trip::<Single, super::iceoryx::Iceoryx<1>>("iceoryx2", "spin", Probe::Atomic),
        round_trip_threads::<Single, FmqPair>("fmq", Probe::Atomic),
        round_trip_threads::<Single, Rtrb>("rtrb", Probe::Atomic),
        round_trip_threads::<Single, Crossbeam>("crossbeam", Probe::Atomic),
        round_trip::<Line, Fmq<[u64; 8], 1, Spin>>("fmq", "spin", Probe::Atomic),
        round_trip::<Line, Fmq<[u64; 8], 1, Adaptive>>("fmq", "adaptive", Probe::Atomic),
        round_trip::<Kilobyte, Fmq<[u64; 128], 1, Spin>>("fmq", "spin", Probe::Copy),
        round_trip::<Kilobyte, Fmq<[u64; 128], 1, Adaptive>>("fmq", "adaptive", Probe::Copy),
        round_trip::<Packet, Fmq<[u64; 3], 42, Spin>>("fmq", "spin", Probe::Copy),
        round_trip::<Packet, Fmq<[u64; 3], 42, SpinFlagged>>("fmq+flag", "spin", Probe::Copy),
        round_trip::<Packet, Fmq<[u64; 3], 42, Adaptive>>("fmq", "adaptive", Probe::Copy),
        round_trip::<Packet, Libfmq<Spin>>("libfmq-model", "spin", Probe::Copy),
        #[cfg(feature = "peers")]
        round_trip::<[u64; 128], super::iceoryx::Iceoryx<128>>("iceoryx2", "spin", Probe::Copy),
        round_trip_threads::<Kilobyte, Rtrb>("rtrb", Probe::Copy),
        round_trip_threads::<Kilobyte, Crossbeam>("crossbeam", Probe::Copy),
    ]
}

#[rustfmt::skip] // one row, one line
fn slept() -> Vec<Row> {
    vec![
        round_trip::<Single, Fmq<u64, 1, Block>>("fmq", "block", Probe::Futex),
        round_trip::<Single, Fmq<u64, 1, Watched<Block>>>("fmq+watch", "block", Probe::Futex),
        round_trip::<Line, Fmq<[u64; 8], 1, Block>>("fmq", "block", Probe::Futex),
        round_trip::<Kilobyte, Fmq<[u64; 128], 1, Block>>("fmq", "block", Probe::Futex),
        round_trip::<Packet, Fmq<[u64; 3], 42, Block>>("fmq", "block", Probe::Futex),
        round_trip::<Single, Libfmq<Block>>("libfmq-model", "block", Probe::Futex),
        round_trip::<Single, Seqpacket>("unix-socket", "block", Probe::Futex),
        round_trip::<Kilobyte, Seqpacket>("unix-socket", "block", Probe::Futex),
        round_trip::<Single, eventfd::Eventfd>("eventfd", "block", Probe::Futex),
    ]
}

#[rustfmt::skip] // one row, one line
fn flows() -> Vec<Row> {
    vec![
        throughput::<Single, Fmq<u64, 1, Spin>>("fmq", "spin"),
        throughput::<Single, Fmq<u64, 1, Watched<Spin>>>("fmq+watch", "spin"),
        throughput::<Single, Libfmq<Spin>>("libfmq-model", "spin"),
        throughput_threads::<Single, FmqPair>("fmq"),
        throughput_threads::<Single, Rtrb>("rtrb"),
        throughput_threads::<Single, Crossbeam>("crossbeam"),
        #[cfg(feature = "peers")]
        throughput::<Single, super::iceoryx::Iceoryx<1>>("iceoryx2", "spin"),
        throughput::<Batch, Fmq<u64, 8, Spin>>("fmq", "spin"),
        throughput::<Batch, Libfmq<Spin>>("libfmq-model", "spin"),
        throughput_threads::<Batch, Rtrb>("rtrb"),
        throughput::<Kilobyte, Fmq<[u64; 128], 1, Spin>>("fmq", "spin"),
        throughput::<Single, Fmq<u64, 1, SpinFlagged>>("fmq+flag", "spin"),
        throughput::<Single, Fmq<u64, 1, Adaptive>>("fmq", "adaptive"),
        throughput::<Single, Fmq<u64, 1, Watched<Adaptive>>>("fmq+watch", "adaptive"),
        throughput::<Single, Fmq<u64, 1, Block>>("fmq", "block"),
        throughput::<Single, Libfmq<Block>>("libfmq-model", "block"),
        throughput::<Batch, Fmq<u64, 8, Block>>("fmq", "block"),
        throughput::<Batch, Libfmq<Block>>("libfmq-model", "block"),
    ]
}

fn round_trip<M: Message, C: Channel<M>>(
    transport: &'static str,
    wait: &'static str,
    probe: Probe,
) -> Row {
    let way = Way::Processes {
        open: |link| {
            let (there, back) = (C::create(link)?, C::create(link)?);
            Ok(Box::new(RoundTrip::new(C::tx(there)?, C::rx(back)?)))
        },
        join: |link| {
            let (there, back) = (C::join(link)?, C::join(link)?);
            Ok(Box::new(Echo { rx: C::rx(there)?, tx: C::tx(back)?, message: M::zeroed() }))
        },
    };
    row::<M>("round_trip", transport, wait, probe, way)
}

fn round_trip_threads<M: Message, P: Pair<M>>(transport: &'static str, probe: Probe) -> Row {
    let way = Way::Threads(|| {
        let ((tx, far_rx), (far_tx, rx)) = (P::pair()?, P::pair()?);
        let far = Echo { rx: far_rx, tx: far_tx, message: M::zeroed() };
        Ok((Box::new(RoundTrip::new(tx, rx)), Box::new(far)))
    });
    row::<M>("round_trip", transport, "spin", probe, way)
}

fn throughput<M: Message, C: Channel<M>>(transport: &'static str, wait: &'static str) -> Row {
    let way = Way::Processes {
        open: |link| {
            let both = C::create(link)?;
            let page = Shared::create(PAGE)?;
            link.send(b"arrived", &[std::os::fd::AsFd::as_fd(&page.fd())])?;
            let arrived = page.word(0)?;
            Ok(Box::new(Flow { tx: C::tx(both)?, message: M::zeroed(), number: 0, arrived }))
        },
        join: |link| {
            let both = C::join(link)?;
            let (_, mut fds) = link.expect()?;
            let page = Shared::attach(fds.pop().ok_or("a page without a file")?, PAGE)?;
            let arrived = page.word(0)?;
            Ok(Box::new(Sink { rx: C::rx(both)?, message: M::zeroed(), number: 0, arrived }))
        },
    };
    row::<M>("throughput", transport, wait, Probe::Atomic, way)
}

fn throughput_threads<M: Message, P: Pair<M>>(transport: &'static str) -> Row {
    let way = Way::Threads(|| {
        let (tx, rx) = P::pair()?;
        let arrived = Shared::create(PAGE)?.word(0)?;
        let near = Flow { tx, message: M::zeroed(), number: 0, arrived: arrived.clone() };
        Ok((Box::new(near), Box::new(Sink { rx, message: M::zeroed(), number: 0, arrived })))
    });
    row::<M>("throughput", transport, "spin", Probe::Atomic, way)
}

fn row<M: Message>(
    bench: &'static str,
    transport: &'static str,
    wait: &'static str,
    probe: Probe,
    way: Way,
) -> Row {
    // Batches are of words or of burst elements; everything else is one item.
    let items = match size_of::<M>() {
        64 if bench == "throughput" => 8,
        1008 => 42,
        _ => 1,
    };
    Row { bench, transport, wait, bytes: size_of::<M>(), items, probe, way }
}

const PAGE: usize = 4096;
