//! Two real processes: this test starts itself again as the other one.
//!
//! The other process is libfmq, played by [`ForeignPeer`], or our own end; it opens the memory
//! through its parent's `/proc` entries, so that nothing is inherited.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use nnburst_fmq::testing::{ForeignPeer, HostilePeer};
use nnburst_fmq::{
    AttachOptions, Descriptor, DescriptorData, Grantor, PeerWatch, Queue, QueueError, Wait, erased,
    unsync,
};

/// A guard against a hang, never a measure of speed.
const HANG: Duration = Duration::from_secs(60);
const ROLE: &str = "FMQ_TEST_ROLE";

/// A descriptor in words: process, files, quantum, flags, grantors.
fn to_words(descriptor: &Descriptor) -> String {
    use std::os::fd::AsRawFd;
    let DescriptorData { grantors, quantum, flags } = &descriptor.data;
    let fds: Vec<_> = descriptor.fds.iter().map(|fd| fd.as_raw_fd().to_string()).collect();
    let grantors = grantors.iter().map(|g| format!(" {} {} {}", g.fd_index, g.offset, g.extent));
    let (me, fds) = (std::process::id(), fds.join(","));
    format!("{me} {fds} {quantum} {flags}{}", grantors.collect::<String>())
}

fn from_words(words: &str) -> Descriptor {
    let mut words = words.split(' ');
    let (pid, fds) = (words.next().unwrap(), words.next().unwrap());
    let mut numbers = words.map(|word| word.parse::<u64>().unwrap());
    let (quantum, flags) = (numbers.next().unwrap() as u32, numbers.next().unwrap() as u32);
    let rest: Vec<u64> = numbers.collect();
    let grantor =
        |g: &[u64]| Grantor { flags: 0, fd_index: g[0] as u32, offset: g[1] as u32, extent: g[2] };
    let open = |fd: &str| {
        let path = format!("/proc/{pid}/fd/{fd}");
        std::fs::File::options().read(true).write(true).open(path).unwrap().into()
    };
    let data = DescriptorData { grantors: rest.chunks(3).map(grantor).collect(), quantum, flags };
    Descriptor { data, fds: fds.split(',').map(open).collect() }
}

/// Starts this program as `role` with the queues in its environment.
fn start(role: &str, queues: &[&Descriptor]) -> Child {
    let mut command = the_other_process(role);
    for (i, queue) in queues.iter().enumerate() {
        command.env(format!("FMQ_TEST_QUEUE_{i}"), to_words(queue));
    }
    command.spawn().unwrap()
}

fn the_other_process(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "the_other_process_of_these_tests",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(ROLE, role).stdout(Stdio::piped());
    command
}

fn queue(i: usize) -> Descriptor {
    from_words(&std::env::var(format!("FMQ_TEST_QUEUE_{i}")).unwrap())
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn the_other_process_of_these_tests() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "foreign echo, polling" => foreign_echo(false),
        "foreign echo, blocking" => foreign_echo(true),
        "foreign host" => {
            let [quantum, sealed, blocking] = ["QUANTUM", "SEALED", "BLOCKING"].map(number);
            let [requests, answers] = [0, 1].map(|_| libfmq_memory(7, quantum, sealed == 1));
            println!("queues: {}; {}", to_words(&requests), to_words(&answers));
            echo(&requests, &answers, blocking == 1);
        }
        "count on" => count_on(),
        "read and stop" => println!("read {}", queue_consumer().pop(Wait::Block).unwrap()),
        "overwrite" => {
            let mut writer = unsync::Writer::<u64>::attach(queue(0)).unwrap();
            (0..10).for_each(|i| writer.try_push(i).unwrap());
        }
        "die in mid batch" => die_in_mid_batch(),
        "foreign overwrite" => {
            let foreign = ForeignPeer::new(&queue(0));
            for batch in 1..=LAST_BATCH {
                foreign.begin_overwrite(&[batch.to_ne_bytes(); 3].concat());
                foreign.commit_overwrite(24);
            }
        }
        "foreign history" => read_history(),
        other => panic!("no role {other}"),
    }
}

fn queue_consumer() -> nnburst_fmq::Consumer<u64> {
    Queue::<u64>::attach(queue(0)).unwrap().into_consumer()
}

const ROUNDS: usize = 200;

/// Batch sizes that wrap a ring of 7 in every place.
fn batch(round: usize) -> usize {
    round % 7 + 1
}

fn pattern(round: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (round * 31 + i) as u8).collect()
}

/// Reads each batch from queue 0 and writes it to queue 1, as libfmq would.
fn foreign_echo(blocking: bool) {
    echo(&queue(0), &queue(1), blocking);
}

fn echo(requests: &Descriptor, answers: &Descriptor, blocking: bool) {
    let quantum = requests.data.quantum as usize;
    let (from, to) = (ForeignPeer::new(requests), ForeignPeer::new(answers));
    for round in 0..ROUNDS {
        let mut items = vec![0; batch(round) * quantum];
        if blocking {
            assert!(from.read_blocking(&mut items, HANG), "round {round}");
            assert!(to.write_blocking(&items, HANG), "round {round}");
        } else {
            while !from.read(&mut items) {
                std::thread::yield_now();
            }
            while !to.write(&items) {
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn a_foreign_process_speaks_libfmq_on_the_same_memory() {
    for quantum in [1, 8, 16, 24] {
        for (role, wait) in [
            ("foreign echo, polling", Wait::Spin),
            ("foreign echo, blocking", Wait::Block),
            ("foreign echo, blocking", Wait::adaptive(20)),
        ] {
            let requests = erased::Queue::builder(7, quantum).event_flag(true).create().unwrap();
            let answers = erased::Queue::builder(7, quantum).event_flag(true).create().unwrap();
            let queues = [requests.descriptor().unwrap(), answers.descriptor().unwrap()];
            let mut child = start(role, &[&queues[0], &queues[1]]);
            let (mut to, mut from) = (requests.into_producer(), answers.into_consumer());
            for round in 0..ROUNDS {
                let items = pattern(round, batch(round) * quantum);
                to.write(&items, wait.within(HANG)).unwrap();
                let mut echo = vec![0; items.len()];
                from.read(&mut echo, wait.within(HANG)).unwrap();
                assert_eq!(echo, items, "{role}, {quantum} bytes, round {round}");
            }
            assert!(child.wait().unwrap().success());
        }
    }
}

/// Memory as libfmq's own allocator makes it: packed, of pages, with a flag, sealed only where the
/// platform does so.
fn libfmq_memory(capacity: usize, quantum: usize, sealed: bool) -> Descriptor {
    let ring = (capacity * quantum) as u32;
    let flag_at = (16 + ring).next_multiple_of(8);
    let grantor = |offset, extent| Grantor { flags: 0, fd_index: 0, offset, extent };
    let flags = if sealed { MFdFlags::MFD_ALLOW_SEALING } else { MFdFlags::empty() };
    let fd = memfd_create(c"MessageQueue", MFdFlags::MFD_CLOEXEC | flags).unwrap();
    ftruncate(&fd, i64::from((flag_at + 4).next_multiple_of(4096))).unwrap();
    if sealed {
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(seals)).unwrap();
    }
    let grantors =
        vec![grantor(0, 8), grantor(8, 8), grantor(16, u64::from(ring)), grantor(flag_at, 4)];
    Descriptor {
        data: DescriptorData { grantors, quantum: quantum as u32, flags: 1 },
        fds: vec![fd],
    }
}

/// A number that the parent has put into the environment.
fn number(name: &str) -> usize {
    std::env::var(format!("FMQ_TEST_{name}")).unwrap().parse().unwrap()
}

#[test]
fn we_join_queues_that_a_foreign_process_has_made() {
    for (i, quantum) in [1, 8, 16, 24].into_iter().enumerate() {
        for (sealed, wait) in [(true, Wait::Spin), (i % 2 == 0, Wait::Block)] {
            let mut command = the_other_process("foreign host");
            let blocking = wait == Wait::Block;
            let mut child = command
                .env("FMQ_TEST_QUANTUM", quantum.to_string())
                .env("FMQ_TEST_SEALED", u8::from(sealed).to_string())
                .env("FMQ_TEST_BLOCKING", u8::from(blocking).to_string())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let words = lines
                .find_map(|line| Some(line.unwrap().split_once("queues: ")?.1.to_owned()))
                .unwrap();
            let (requests, answers) = words.split_once("; ").unwrap();
            let attach = |words| {
                let descriptor = from_words(words);
                let strict = erased::Queue::attach(descriptor.try_clone().unwrap(), quantum);
                assert_eq!(strict.is_ok(), sealed, "unsealed memory only where it is allowed");
                let options = AttachOptions::default().allow_unsealed(!sealed);
                erased::Queue::attach_with(descriptor, quantum, options).unwrap()
            };
            let (mut to, mut from) =
                (attach(requests).into_producer(), attach(answers).into_consumer());
            for round in 0..ROUNDS {
                let items = pattern(round, batch(round) * quantum);
                to.write(&items, wait.within(HANG)).unwrap();
                let mut echo = vec![0; items.len()];
                from.read(&mut echo, wait.within(HANG)).unwrap();
                assert_eq!(echo, items, "{wait:?}, {quantum} bytes, round {round}");
            }
            assert!(child.wait().unwrap().success());
        }
    }
}

#[test]
fn a_foreign_process_reads_twice_what_it_is_written_at_a_time_and_the_reverse() {
    // Two writes to a read, and a write to two reads, both blocking, over a ring that is always
    // nearly full.
    for (ours, theirs) in [(2, 4), (4, 2), (3, 3)] {
        let queue = Queue::<u64>::builder(5).event_flag(true).packed().create().unwrap();
        let foreign = ForeignPeer::new(&queue.descriptor().unwrap());
        let mut producer = queue.into_producer();
        let total = 480;
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            while all.len() < total * 8 {
                let mut items = vec![0; theirs * 8];
                assert!(foreign.read_blocking(&mut items, HANG));
                all.extend(items);
            }
            all
        });
        let items: Vec<u64> = (0..total as u64).collect();
        for batch in items.chunks(ours) {
            producer.write(batch, Wait::Block.within(HANG)).unwrap();
        }
        let all = reader.join().unwrap();
        let got: Vec<u64> =
            all.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!(got, items);
    }
}

#[test]
fn a_foreign_writer_fills_our_queue() {
    let queue = Queue::<u64>::builder(3).event_flag(true).packed().create().unwrap();
    let foreign = ForeignPeer::new(&queue.descriptor().unwrap());
    let mut consumer = queue.into_consumer();
    assert!(foreign.write(&[7; 24]) && !foreign.write(&[7; 8]));
    assert_eq!(foreign.available_to_read(), 3);
    assert_eq!(consumer.available_to_read(), Ok(3));
    let late = std::thread::spawn(move || foreign.write_blocking(&[9; 8], HANG));
    std::thread::sleep(Duration::from_millis(10));
    consumer.try_read(&mut [0; 3]).unwrap();
    assert!(late.join().unwrap(), "a read by us wakes a libfmq writer");
    assert_eq!(consumer.pop(Wait::Block.within(HANG)), Ok(u64::from_le_bytes([9; 8])));
}

#[test]
fn a_process_reads_what_another_wrote() {
    let queue = Queue::<u64>::builder(3).event_flag(true).create().unwrap();
    let descriptor = queue.descriptor().unwrap();
    let child = start("read and stop", &[&descriptor]);
    queue.into_producer().push(4711, Wait::Block).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        BufReader::new(&*output.stdout).lines().any(|line| line.unwrap().ends_with("read 4711"))
    );
}

#[test]
fn an_overwriting_process_is_read_by_many() {
    let writer = Queue::<u64>::builder(4).create_unsync().unwrap();
    let descriptor = writer.descriptor().unwrap();
    let mut readers =
        [0; 3].map(|_| unsync::Reader::<u64>::attach(descriptor.try_clone().unwrap()).unwrap());
    assert!(start("overwrite", &[&descriptor]).wait().unwrap().success());
    for reader in &mut readers {
        assert_eq!(reader.try_pop(), Err(QueueError::Lost { lost: 8 }));
        assert_eq!((reader.try_pop(), reader.try_pop()), (Ok(8), Ok(9)));
    }
}

/// The number of the last batch of three equal items.
const LAST_BATCH: u64 = 50_000;

#[test]
fn no_batch_of_a_foreign_process_that_marks_them_is_torn() {
    let descriptor = Queue::<u64>::builder(12).create_unsync().unwrap().descriptor().unwrap();
    let mut reader = unsync::Reader::<u64>::attach(descriptor.try_clone().unwrap()).unwrap();
    let mut writer = start("foreign overwrite", &[&descriptor]);
    let (mut whole, mut seen, mut done) = (0, 0, false);
    while seen < LAST_BATCH {
        let mut batch = [0; 3];
        match reader.try_read(&mut batch) {
            Ok(()) => {
                assert_eq!(batch, [batch[0]; 3]);
                (whole, seen) = (whole + 1, batch[0]);
            }
            Err(QueueError::Lost { lost }) => assert_eq!(lost % 3, 0),
            Err(QueueError::Empty { .. }) => {
                assert!(!done, "{seen} was the last");
                done = writer.try_wait().unwrap().is_some();
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(writer.wait().unwrap().success() && whole > 0);
}

/// Reads batches of our writer as libfmq would until the last one.
fn read_history() {
    let foreign = ForeignPeer::new(&queue(0));
    let (mut cursor, mut batch) = (0, [0; 24]);
    std::io::Write::write_all(&mut std::io::stdout(), b"reading\n").unwrap();
    while batch != *[LAST_BATCH.to_ne_bytes(); 3].concat() {
        if foreign.read_history(&mut cursor, &mut batch) {
            let (items, _) = batch.as_chunks::<8>();
            assert!(items.iter().all(|item| *item == items[0]), "{batch:?}");
        }
    }
}

#[test]
fn a_foreign_process_reads_no_torn_batch_of_ours() {
    let mut writer = Queue::<u64>::builder(12).create_unsync().unwrap();
    let descriptor = writer.descriptor().unwrap();
    let mut reader = start("foreign history", &[&descriptor]);
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("reading")));
    for batch in 1..=LAST_BATCH {
        writer.try_write(&[batch; 3]).unwrap();
    }
    // A pipe that nobody reads fails the other process.
    lines.for_each(drop);
    assert!(reader.wait().unwrap().success());
}

/// Writes the numbers from the write counter on, for ever.
fn count_on() {
    let descriptor = queue(0);
    let written = HostilePeer::new(descriptor.try_clone().unwrap()).counters().1;
    let mut producer = Queue::<u64>::attach(descriptor).unwrap().into_producer();
    let mut next = written / 8;
    loop {
        let batch: Vec<u64> = (next..=next + next % 5).collect();
        producer.write(&batch, Wait::adaptive(20)).unwrap();
        next += batch.len() as u64;
    }
}

#[test]
fn kill_dash_nine_at_any_time_loses_and_repeats_nothing() {
    for wait in [Wait::Spin, Wait::Block, Wait::adaptive(20)] {
        let queue = Queue::<u64>::builder(13).event_flag(true).create().unwrap();
        let descriptor = queue.descriptor().unwrap();
        let mut consumer = queue.into_consumer();
        let mut next = 0;
        for round in 0..6 {
            let mut child = start("count on", &[&descriptor]);
            let watch = PeerWatch::process(child.id()).unwrap();
            consumer.set_peer(&watch);
            let target = next + 50 + round * 977;
            loop {
                match consumer.pop(wait.within(HANG)) {
                    Ok(item) => assert_eq!(item, next),
                    Err(error) => {
                        assert_eq!(error, QueueError::PeerDied);
                        break;
                    }
                }
                next += 1;
                if next == target {
                    child.kill().unwrap();
                }
            }
            child.wait().unwrap();
            assert!(next >= target);
        }
    }
}

/// Items of the ring that writers are killed over, 16 bytes each: copying a batch takes long enough
/// to die in it.
const KILLED_RING: u64 = 1 << 19;

/// An item that says where in the history it belongs, and who wrote it.
fn numbered(from: u64, count: u64, writer: u64) -> Vec<[u64; 2]> {
    (from..from + count).map(|at| [at, writer]).collect()
}

/// Writes a ring full and says so; once told, begins to write half a ring more and is killed.
fn die_in_mid_batch() {
    let [from, writer] = ["FROM", "WRITER"].map(number).map(|number| number as u64);
    let mut queue = unsync::Writer::<[u64; 2]>::attach(queue(0)).unwrap();
    let [first, second] = [0, KILLED_RING / 2].map(|at| from + at);
    queue.try_write(&numbered(first, KILLED_RING / 2, writer)).unwrap();
    queue.try_write(&numbered(second, KILLED_RING / 2, writer)).unwrap();
    let last = numbered(from + KILLED_RING, KILLED_RING / 2, writer);
    std::io::Write::write_all(&mut std::io::stdout(), b"written\n").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let _ = queue.try_write(&last);
    std::thread::sleep(HANG);
}

#[test]
fn a_writer_that_is_killed_in_mid_batch_publishes_nothing_of_it_by_its_successor() {
    let queue = Queue::<[u64; 2]>::builder(KILLED_RING as usize).create_unsync().unwrap();
    let descriptor = queue.descriptor().unwrap();
    drop(queue);
    let mut reader = unsync::Reader::<[u64; 2]>::attach(descriptor.try_clone().unwrap()).unwrap();
    let memory = HostilePeer::new(descriptor.try_clone().unwrap());
    let (mut at, mut died_in_mid_batch) = (0, 0);
    for round in 0..24_u64 {
        let published = at;
        let mut command = the_other_process("die in mid batch");
        command.env("FMQ_TEST_QUEUE_0", to_words(&descriptor)).stdin(Stdio::piped());
        command.env("FMQ_TEST_FROM", published.to_string());
        command.env("FMQ_TEST_WRITER", round.to_string());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("written")));
        // An eighth of a ring behind the oldest item: what the batch goes over first is read
        // already.
        let mut items = vec![[0; 2]; KILLED_RING as usize / 8];
        reader.try_read(&mut items).unwrap();
        assert_eq!(items, numbered(published, KILLED_RING / 8, round));
        at = published + KILLED_RING / 8;
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"\n").unwrap();
        // The mark moves to the batch's end where the batch begins.
        while memory.counters().0 / 16 < published + KILLED_RING * 3 / 2 {
            std::hint::spin_loop();
        }
        (0..20 * round).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        child.wait().unwrap();

        // Its successor writes less than the dead one had begun.
        let end = memory.counters().1 / 16;
        let mut successor =
            unsync::Writer::<[u64; 2]>::attach(descriptor.try_clone().unwrap()).unwrap();
        successor.try_write(&numbered(end, 1, round)).unwrap();
        let was_published = end == published + KILLED_RING * 3 / 2;
        assert!(was_published || end == published + KILLED_RING);
        loop {
            let count = reader.available_to_read().unwrap().min(KILLED_RING as usize / 8);
            if count == 0 {
                break;
            }
            items.truncate(count);
            match reader.try_read(&mut items) {
                Ok(()) => {
                    assert_eq!(items, numbered(at, count as u64, round), "round {round}");
                    at += count as u64;
                }
                Err(QueueError::Lost { lost }) => {
                    died_in_mid_batch += u64::from(!was_published);
                    at += lost;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(at, end + 1, "round {round}");
    }
    println!("{died_in_mid_batch} of 24 writers died in mid batch");
}
