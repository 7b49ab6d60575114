//! Forks: what a process has one of (the thread that watches peers, the one that sleeps for event
//! loops) is not in a child.
//!
//! A child of a program with several threads may do little before it executes another one, so each
//! test starts this program again for its role, in which one thread forks before there are others;
//! the children end by `_exit`.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nnburst_fmq::{Consumer, PeerWatch, Queue, QueueError, Readiness, Wait};

/// A guard against a hang, never a measure of speed.
const HANG: Duration = Duration::from_secs(60);
const ROLE: &str = "FMQ_FORK_ROLE";

fn play(role: &str) {
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args(["--exact", "the_role_of_these_tests", "--nocapture", "--test-threads=1"]);
    let played = this.env(ROLE, role).stdin(Stdio::null()).status().unwrap();
    assert!(played.success(), "{role}: {played}");
}

/// Not a test of its own: the process of the tests below.
#[test]
fn the_role_of_these_tests() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "own" => a_child_watches_by_itself(),
        "inherited" => an_inherited_watch_goes_on(),
        "no descriptors" => a_watch_that_can_not_be_made_anew_is_tried_again(),
        "readiness" => an_inherited_readiness_goes_on(),
        other => panic!("no role {other}"),
    }
}

#[test]
fn a_child_hears_of_its_own_peers_death_and_the_parent_only_of_its_own_peers() {
    play("own");
}

#[test]
fn a_watch_that_a_child_inherits_works_there_and_in_the_parent() {
    play("inherited");
}

#[test]
fn a_child_that_has_no_descriptor_left_for_a_watch_hears_of_the_death_once_it_has() {
    play("no descriptors");
}

#[test]
fn an_event_loop_goes_on_in_a_child_and_leaves_the_parents_alone() {
    play("readiness");
}

/// A forked process that was to return `true`.
struct Child(libc::pid_t);

impl Child {
    fn run(child: impl FnOnce() -> bool) -> Self {
        // SAFETY: of this process's threads the child has this one, which holds no lock; it does no
        // more than allocate, start threads and make system calls, which the C library allows after
        // a fork, and ends without destructors.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let child = std::panic::AssertUnwindSafe(child);
            let well = std::panic::catch_unwind(child).unwrap_or(false);
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!well)) };
        }
        Self(pid)
    }

    fn ended_well(self) -> bool {
        let mut status = 0;
        // SAFETY: a child of ours, and a place for its status.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        waited == self.0 && status == 0
    }
}

fn watched() -> (UnixStream, PeerWatch, Consumer<u64>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let watch = PeerWatch::connection(ours).unwrap();
    let queue = Queue::<u64>::builder(2).event_flag(true).create().unwrap();
    let mut consumer = queue.into_consumer();
    consumer.set_peer(&watch);
    (theirs, watch, consumer)
}

fn a_child_watches_by_itself() {
    let (theirs, watch, mut consumer) = watched();
    let child = Child::run(|| {
        // As many as the parent has, so that keys of one meet keys of the other.
        let [first, second] = [(); 2].map(|()| watched());
        for (theirs, watch, mut consumer) in [first, second] {
            drop(theirs);
            for strategy in [Wait::Block, Wait::Spin] {
                assert_eq!(consumer.pop(strategy.within(HANG)), Err(QueueError::PeerDied));
            }
            assert!(watch.is_dead());
        }
        drop(watched());
        PeerWatch::stop_all();
        true
    });
    assert!(child.ended_well());
    assert!(!watch.is_dead(), "the child's peer died, not the parent's");
    let soon = Wait::Block.within(Duration::from_millis(50));
    assert_eq!(consumer.pop(soon), Err(QueueError::TimedOut));
    drop(theirs);
    assert_eq!(consumer.pop(Wait::Block.within(HANG)), Err(QueueError::PeerDied));
}

fn an_inherited_watch_goes_on() {
    let (theirs, watch, mut consumer) = watched();
    let (mut tell, told) = UnixStream::pair().unwrap();
    let child = Child::run(|| {
        assert!(!watch.is_dead());
        let soon = Wait::Block.within(Duration::from_millis(20));
        assert_eq!(consumer.pop(soon), Err(QueueError::TimedOut));
        // Two shares of the peer's end are open: the child's and the parent's. Both must go.
        // SAFETY: the child ends without destructors, so nobody closes it again.
        drop(unsafe { OwnedFd::from_raw_fd(theirs.as_raw_fd()) });
        std::io::Write::write_all(&mut tell, b"!").unwrap();
        let died = consumer.pop(Wait::Block.within(HANG)) == Err(QueueError::PeerDied);
        died && watch.is_dead()
    });
    std::io::Read::read_exact(&mut &told, &mut [0]).unwrap();
    assert!(!watch.is_dead());
    drop(theirs);
    assert!(child.ended_well());
    while !watch.is_dead() {
        std::thread::yield_now();
    }
}

fn a_watch_that_can_not_be_made_anew_is_tried_again() {
    let (theirs, watch, mut consumer) = watched();
    let child = Child::run(|| {
        let (limit, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 0, most).unwrap();
        let waiter = std::thread::spawn(move || consumer.pop(Wait::Block.within(HANG)));
        std::thread::sleep(Duration::from_millis(30));
        setrlimit(Resource::RLIMIT_NOFILE, limit, most).unwrap();
        // SAFETY: the child ends without destructors, so nobody closes it again.
        drop(unsafe { OwnedFd::from_raw_fd(theirs.as_raw_fd()) });
        waiter.join().unwrap() == Err(QueueError::PeerDied)
    });
    drop(theirs);
    assert!(child.ended_well());
    while !watch.is_dead() {
        std::thread::yield_now();
    }
}

fn an_inherited_readiness_goes_on() {
    let (mut producer, mut consumer) = Queue::<u64>::builder(2).event_flag(true).pair().unwrap();
    let mut readiness = Readiness::new().unwrap();
    assert_eq!(readiness.poll_readable(&mut consumer, 1), Ok(false));
    let child = Child::run(|| {
        // The memory of a pair is private: in the child there is another queue.
        for item in 0..3 {
            assert_eq!(readiness.poll_readable(&mut consumer, 1), Ok(false));
            producer.try_push(item).unwrap();
            let mut fds = [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::NONE).unwrap();
            assert_eq!(readiness.poll_readable(&mut consumer, 1), Ok(true));
            assert_eq!(consumer.try_pop(), Ok(item));
        }
        drop(Readiness::new().unwrap());
        true
    });
    assert!(child.ended_well());
    let mut fds = [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)];
    let readable = poll(&mut fds, PollTimeout::ZERO).unwrap();
    assert_eq!(readable, 0, "nothing has come in the parent");
}
