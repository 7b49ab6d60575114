//! The soak of the queue: two processes, numbered items with checksums in batches of changing size,
//! every wait strategy, and a reader or writer that is killed at random times and started again.
//!
//! ```text
//! parent: makes the queue, starts both ends, kills one of them now and then,
//!         starts it again on the same memory
//!    writer --- items: (number, mix of number) ---> reader: each number is the last one plus one,
//!               or after a kill of the reader: again from where its counter stood
//! ```
//!
//! Ends survive their peer's death by [`PeerWatch`](nnburst_fmq::PeerWatch): they are told, and
//! attach anew.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks")]

use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use benches::Result;
use benches::link::Link;
use clap::Parser;
use nnburst_fmq::{Cancel, Consumer, Descriptor, Producer, Queue, QueueError, Wait};

/// Two processes, checksums, kill -9 at random times.
#[derive(Debug, Parser)]
struct Options {
    /// For how long.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Go on until as many items have passed, however long it takes; 0: only the time counts.
    #[arg(long, default_value_t = 0)]
    items: u64,
    /// Of the random choices; by default the time of day.
    #[arg(long)]
    seed: Option<u64>,
}

const CAPACITY: usize = 1000;
const WRITER: &str = "writer";
const READER: &str = "reader";
/// Longer without an item is a hang, also on a busy machine.
const HANG: Duration = Duration::from_secs(30);
/// Batches are up to this long.
const LONGEST: u64 = 64;

/// A number and its image under a mixing function.
type Item = [u64; 2];

fn item(number: u64) -> Item {
    [number, mix(number)]
}

/// One step of splitmix64.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The batch that begins at `number`, in items.
fn batch(number: u64) -> usize {
    usize::try_from(mix(number ^ 0x5eed) % LONGEST).unwrap_or(0) + 1
}

fn wait(turn: u64) -> Wait {
    match turn % 3 {
        0 => Wait::Spin,
        1 => Wait::Block,
        _ => Wait::adaptive(50),
    }
}

fn main() -> ExitCode {
    let role = std::env::args().nth(1);
    let done = match role.as_deref() {
        Some(WRITER) => end().and_then(|(queue, link)| write(queue.into_producer(), &link)),
        Some(READER) => end().and_then(|(queue, link)| read(queue.into_consumer(), &link)),
        _ => soak(&Options::parse()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak {}: {error}", role.unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

/// The queue, as a child finds it on its standard input.
fn end() -> Result<(Queue<Item>, Link)> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    let link = Link::inherited()?;
    let (data, fds) = link.expect()?;
    let queue = Queue::attach(Descriptor { data: serde_json::from_slice(&data)?, fds })?;
    Ok((queue, link))
}

/// Waits are cut into pieces, so that an end sees it when it is to stop.
const PIECE: Duration = Duration::from_millis(50);

/// Writes until the parent closes the link. The number to begin with follows from the bytes written
/// so far.
fn write(mut producer: Producer<Item>, link: &Link) -> Result<()> {
    let cancel = stop_with(link)?;
    producer.set_cancel(&cancel);
    let mut number = first(link)?;
    let mut items = Vec::new();
    for turn in 0.. {
        items.clear();
        items.extend((number..).take(batch(number)).map(item));
        loop {
            match producer.write(&items, wait(turn / 1000).within(PIECE)) {
                Ok(()) => break,
                Err(QueueError::TimedOut) => {}
                Err(QueueError::Cancelled) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        number += items.len() as u64;
    }
    Ok(())
}

fn read(mut consumer: Consumer<Item>, link: &Link) -> Result<()> {
    let cancel = stop_with(link)?;
    consumer.set_cancel(&cancel);
    let mut number = first(link)?;
    let mut items = Vec::new();
    for turn in 0.. {
        items.resize(batch(!number), [0; 2]);
        match consumer.read(&mut items, wait(turn / 1000).within(PIECE)) {
            Ok(()) => {}
            Err(QueueError::TimedOut) => continue,
            Err(QueueError::Cancelled) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for found in &items {
            if *found != item(number) {
                return Err(format!("{found:x?} came where {:x?} was due", item(number)).into());
            }
            number += 1;
        }
    }
    Ok(())
}

/// The number of the first item, as the parent found it in the counters.
fn first(link: &Link) -> Result<u64> {
    let (number, _) = link.expect()?;
    Ok(bytemuck::pod_read_unaligned(&number))
}

/// Cancelled when the parent closes the link.
fn stop_with(link: &Link) -> Result<Cancel> {
    let cancel = Cancel::new();
    let raised = cancel.clone();
    let link = link.try_clone()?;
    // The main thread reads its one message before anything else comes: the thread only peeks for
    // the end.
    std::thread::spawn(move || {
        link.wait_for_hang_up();
        raised.cancel();
    });
    Ok(cancel)
}

/// One of the two ends.
struct End {
    role: &'static str,
    child: Child,
    /// Closing it tells the child to stop.
    link: Link,
}

/// The counters tell where each side stands, in items.
fn counters(descriptor: &Descriptor) -> Result<(u64, u64)> {
    benches::shared::counters(descriptor).map(|(read, written)| {
        let bytes = size_of::<Item>() as u64;
        (read / bytes, written / bytes)
    })
}

impl End {
    fn start(role: &'static str, descriptor: &Descriptor) -> Result<Self> {
        let (link, theirs) = Link::pair()?;
        let child = Command::new(std::env::current_exe()?)
            .arg(role)
            .stdin(Stdio::from(theirs.into_fd()))
            .spawn()?;
        let fds: Vec<_> = descriptor.fds.iter().map(AsFd::as_fd).collect();
        link.send(&serde_json::to_vec(&descriptor.data)?, &fds)?;
        let (read, written) = counters(descriptor)?;
        let number = if role == WRITER { written } else { read };
        link.send(bytemuck::bytes_of(&number), &[])?;
        Ok(Self { role, child, link })
    }

    /// As the kernel does when memory runs out.
    fn kill(mut self) -> Result<()> {
        self.alive()?;
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// An end that ended by itself has found something.
    fn alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the {} ended: {status}", self.role).into()),
        }
    }

    fn stop(self) -> Result<()> {
        let Self { role, mut child, link } = self;
        drop(link);
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the {role} ended: {status}").into()) }
    }
}

fn soak(options: &Options) -> Result<()> {
    let time = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_secs());
    let mut random = options.seed.unwrap_or(time);
    println!("seed {random}");
    let queue = Queue::<Item>::builder(CAPACITY).event_flag(true).create()?;
    let descriptor = queue.descriptor()?;
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let mut writer = End::start(WRITER, &descriptor)?;
    let mut reader = End::start(READER, &descriptor)?;
    let mut kills = 0_u32;
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        random = mix(random);
        std::thread::sleep(Duration::from_millis(random % 400));
        let (read, _) = counters(&descriptor)?;
        if Instant::now() >= end && read >= options.items {
            break;
        }
        if read != last {
            (last, moved) = (read, Instant::now());
        } else if moved.elapsed() > HANG {
            return Err(format!("nothing moved for {HANG:?}, at item {read}").into());
        }
        kills += 1;
        if random & 0x1000 == 0 {
            writer.kill()?;
            writer = End::start(WRITER, &descriptor)?;
        } else {
            reader.kill()?;
            reader = End::start(READER, &descriptor)?;
        }
    }
    writer.alive()?;
    reader.alive()?;
    writer.stop()?;
    reader.stop()?;
    let (read, written) = counters(&descriptor)?;
    println!("{read} of {written} items read, every one as it was written; {kills} kills");
    Ok(())
}
