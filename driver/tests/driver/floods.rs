//! Clients that take what they can get: connections, descriptors, and time, by not reading or not
//! going on.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nnburst_hal::*;

use crate::hostile::{frame, resident};
use crate::processes::{ALL, Footprint, Killed, at_rest, connect, start};
use crate::support::*;

/// A driver of which nobody wants anything but a client who behaves.
struct Besieged {
    driver: Killed,
    dir: tempfile::TempDir,
    model: std::sync::Arc<dyn PreparedModel>,
    /// With the client who behaves.
    before: Footprint,
}

impl Besieged {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let driver = start("driver", dir.path());
        at_rest(driver.0.id(), dir.path());
        let model = prepare(&connect(dir.path()), add_one(&[2])).unwrap();
        let mut besieged = Self { before: Footprint::of(driver.0.id()), driver, dir, model };
        // Its call's thread is gone again.
        std::thread::sleep(Duration::from_millis(2500));
        besieged.before = besieged.now();
        besieged
    }

    fn now(&self) -> Footprint {
        Footprint::of(self.driver.0.id())
    }

    fn intruder(&self) -> UnixStream {
        let socket = UnixStream::connect(self.dir.path().join(format!("{ALL}.sock"))).unwrap();
        socket.set_read_timeout(Some(HUNG)).unwrap();
        socket
    }

    fn guest(&self) -> UnixStream {
        let mut socket = self.intruder();
        socket.write_all(&GREETING).unwrap();
        socket.read_exact(&mut [0; 16]).unwrap();
        socket
    }

    /// The client who behaves is served.
    fn serves(&self) {
        let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
        let request = request(&input, &output);
        self.model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        assert_eq!(as_floats(&output), [2.0, 3.0]);
    }

    fn recovers(&self) {
        eventually("nothing of them is left", || {
            let (now, before) = (self.now(), &self.before);
            now.threads <= before.threads
                && now.descriptors <= before.descriptors
                && now.shared_maps <= before.shared_maps
        });
        prepare(&connect(self.dir.path()), add_one(&[1])).unwrap();
    }
}

#[test]
fn thousands_of_connections_without_a_word_cost_a_bounded_number_of_threads() {
    let besieged = Besieged::new();
    let mut held = Vec::new();
    for _ in 0..3000 {
        let mut socket = besieged.intruder();
        // Who was hung up on makes room for the next here.
        socket.set_nonblocking(true).unwrap();
        match socket.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => held.push(socket),
            _ => {}
        }
        held.truncate(1500);
    }
    besieged.serves();
    let during = besieged.now();
    // As many as may be connected are heard out; some more threads may be about to end.
    let most = usize::try_from(nnburst_hal_ipc::UserLimits::default().clients).unwrap();
    assert!(during.threads <= besieged.before.threads + most + 8, "{during:?}");
    assert!(during.descriptors <= besieged.before.descriptors + most + 8, "{during:?}");
    drop(held);
    besieged.recovers();
}

#[test]
fn a_client_that_reads_no_answers_is_hung_up_on() {
    let besieged = Besieged::new();
    let mut deaf = besieged.guest();
    deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let status = [frame(1, 0, 1, 7), vec![4]].concat();
    let mut sent = 0;
    // Until the driver's answers fill the socket, and then our calls do.
    while sent < 100_000 && deaf.write_all(&status).is_ok() {
        sent += 1;
    }
    besieged.serves();
    let mut hung_up = Vec::new();
    std::thread::sleep(Duration::from_millis(5200));
    deaf.set_read_timeout(Some(HUNG)).unwrap();
    let end = deaf.read_to_end(&mut hung_up);
    assert!(end.is_ok() || end.unwrap_err().kind() == ErrorKind::ConnectionReset);
    besieged.recovers();
}

#[test]
fn half_a_message_holds_nobody_up_and_takes_no_more_than_came() {
    let besieged = Besieged::new();
    let rss = resident(besieged.driver.0.id());
    let large = frame(60 << 20, 0, 1, 7);
    let parts: [&[u8]; 4] =
        [&large[..1], &large[..15], &large, &[&large[..], &[3; 100][..]].concat()];
    let mut halves: Vec<_> =
        (0..10).flat_map(|_| parts).map(|part| (besieged.guest(), part)).collect();
    for (socket, part) in &mut halves {
        socket.write_all(part).unwrap();
    }
    besieged.serves();
    let grown = resident(besieged.driver.0.id()).saturating_sub(rss);
    assert!(grown < 40 << 10, "{grown} KiB for headers of 60 MiB each");
    drop(halves);
    besieged.recovers();
}

fn fence() -> OwnedFd {
    EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap().into()
}

#[test]
fn what_hangs_on_fences_is_charged_until_it_is_over() {
    let besieged = Besieged::new();
    let device = connect(besieged.dir.path());
    let model = prepare(&device, add_one(&[2])).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let request = request(&input, &output);
    let never = fence();
    let launch = || {
        let fences = (0..100).map(|_| never.try_clone().unwrap()).collect();
        let options = ExecutionOptions::default();
        model.execute_fenced(request.clone(), fences, options, None).map(drop)
    };
    // The callback is let go of at once, and the execution hangs on.
    let refused = (0..40).find_map(|at| Some((at, launch().err()?)));
    let (at, error) = refused.expect("a hundred descriptors each, and a thousand in all");
    assert_eq!(error.status, ErrorStatus::ResourceExhaustedTransient, "{error}");
    assert!((5..=11).contains(&at), "the {at}th");
    let during = besieged.now();
    assert!(during.descriptors < besieged.before.descriptors + 1200, "{during:?}");
    besieged.serves();
    nix::unistd::write(&never, &1u64.to_ne_bytes()).unwrap();
    eventually("there is room again", || launch().is_ok());
    assert_eq!(as_floats(&output), [2.0, 3.0]);
    drop((model, device));
    besieged.recovers();
}

/// Calls that wait behind others hold their message; so many of them wait, and of so many bytes.
#[test]
fn calls_that_wait_take_a_bounded_number_of_bytes() {
    let besieged = Besieged::new();
    let rss = resident(besieged.driver.0.id());
    let mut greedy = besieged.guest();
    let answers = greedy.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut answers = answers;
        std::io::copy(&mut answers, &mut std::io::sink()).ok()
    });
    // Of no known kind: it is decoded, refused, and that is that; they come faster than that.
    let mut message = frame(8 << 20, 0, 1, 7);
    message.resize(message.len() + (8 << 20), 0xff);
    for _ in 0..100 {
        greedy.write_all(&message).unwrap();
    }
    let grown = resident(besieged.driver.0.id()).saturating_sub(rss);
    assert!(grown < 400 << 10, "{grown} KiB");
    besieged.serves();
    greedy.shutdown(std::net::Shutdown::Both).unwrap();
    reader.join().unwrap();
    besieged.recovers();
}
