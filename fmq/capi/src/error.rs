//! Statuses, and the figures of the last failure of a thread.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::io::Write;

use nnburst_fmq::{Lie, LieKind, Part, QueueError, SetupError};

use crate::Status;

pub(crate) const OK: Status = 0;
const INVALID: Status = -1;

/// Every status, with its meaning.
const MEANINGS: &[(Status, &CStr)] = &[
    (OK, c"done"),
    (INVALID, c"a null pointer, an unknown flag, or an end of the wrong kind"),
    (-2, c"fewer items there than asked for"),
    (-3, c"less room than asked for"),
    (-4, c"more items than the capacity, or than were begun"),
    (-5, c"the deadline passed"),
    (-6, c"the wait was cancelled"),
    (-7, c"the peer is gone"),
    (-8, c"no event flag, or no bit, to sleep on"),
    (-9, c"the peer lied: an impossible counter"),
    (-10, c"the queue is poisoned since the peer lied"),
    (-11, c"a bad descriptor, or an impossible size"),
    (-12, c"a system call failed"),
    (-13, c"the descriptor is for items of another size"),
    (-14, c"items were overwritten before they were read"),
];

/// Returns the meaning of a status, in English.
#[unsafe(no_mangle)]
pub extern "C" fn nnburst_fmq_strerror(status: Status) -> *const c_char {
    let meaning = MEANINGS.iter().find(|(known, _)| *known == status);
    meaning.map_or(c"an unknown status", |(_, meaning)| meaning).as_ptr()
}

/// The reason why a call failed.
#[derive(Debug)]
enum Failure {
    Invalid,
    Queue(QueueError),
    Setup(SetupError),
}

thread_local! {
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

fn remember(failure: Failure) {
    // Fails only while the thread ends, or for a caller that is called back from here: there is
    // none.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some(failure);
        }
    });
}

pub(crate) fn invalid() -> Status {
    remember(Failure::Invalid);
    INVALID
}

pub(crate) fn queue_status(result: Result<(), QueueError>) -> Status {
    let Err(error) = result else { return OK };
    remember(Failure::Queue(error));
    status_of(&error)
}

fn status_of(error: &QueueError) -> Status {
    match error {
        QueueError::Empty { .. } => -2,
        QueueError::Full { .. } => -3,
        QueueError::TooLarge { .. } => -4,
        QueueError::TimedOut => -5,
        QueueError::Cancelled => -6,
        QueueError::PeerDied => -7,
        QueueError::NoEventFlag | QueueError::NoBits => -8,
        QueueError::PeerLied(_) => -9,
        QueueError::Poisoned(_) => -10,
        QueueError::Lost { .. } => -14,
        _ => INVALID,
    }
}

pub(crate) fn setup_status(error: SetupError) -> Status {
    let status = setup_status_of(&error);
    remember(Failure::Setup(error));
    status
}

fn setup_status_of(error: &SetupError) -> Status {
    match error {
        SetupError::System { .. } => -12,
        SetupError::Quantum { .. } => -13,
        _ => -11,
    }
}

/// `nnburst_fmq_error`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the header's")]
pub struct CError {
    /// The status that was returned; [`OK`] if nothing has failed yet.
    pub status: Status,
    /// The part of the queue, as the number of its grantor; -1 if it is about none.
    pub part: i32,
    /// The rule that a peer's counter broke: 1 out of reach, 2 backwards, 3 misaligned; 0 for none.
    pub lie: i32,
    /// The system's error number, or 0.
    pub system: i32,
    /// The number that was asked for.
    pub asked: u64,
    /// The number that there was.
    pub available: u64,
    /// Items that were overwritten.
    pub lost: u64,
    /// The peer's counter.
    pub seen: u64,
    /// Our counter.
    pub ours: u64,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// All of it in English; ends with a zero.
    pub message: [c_char; 192],
}

const _: () = assert!(size_of::<CError>() == 256);

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nnburst_fmq_last_error(out: *mut CError) -> Status {
    if out.is_null() {
        return INVALID;
    }
    let error = LAST.try_with(|last| last.try_borrow().ok().map(|last| figures(last.as_ref())));
    // SAFETY: not null, and valid by the header.
    unsafe { out.write(error.ok().flatten().unwrap_or_else(CError::none)) };
    OK
}

impl CError {
    fn none() -> Self {
        Self {
            status: OK,
            part: -1,
            lie: 0,
            system: 0,
            asked: 0,
            available: 0,
            lost: 0,
            seen: 0,
            ours: 0,
            ring_bytes: 0,
            message: [0; 192],
        }
    }

    fn say(mut self, status: Status, what: &dyn std::fmt::Display) -> Self {
        self.status = status;
        let mut text = [0; 191];
        // Fails if the text is longer: then its beginning is there.
        let _ = write!(text.as_mut_slice(), "{what}");
        for (to, from) in self.message.iter_mut().zip(text) {
            *to = c_char::from_ne_bytes([from]);
        }
        self
    }
}

fn figures(failure: Option<&Failure>) -> CError {
    let none = CError::none();
    match failure {
        None => none,
        Some(Failure::Invalid) => {
            let (_, meaning) = MEANINGS.get(1).copied().unwrap_or((INVALID, c""));
            none.say(INVALID, &meaning.to_string_lossy())
        }
        Some(Failure::Queue(error)) => of_queue(none, error).say(status_of(error), error),
        Some(Failure::Setup(error)) => of_setup(none, error).say(setup_status_of(error), error),
    }
}

fn of_queue(none: CError, error: &QueueError) -> CError {
    match *error {
        QueueError::Empty { asked, available }
        | QueueError::Full { asked, free: available }
        | QueueError::TooLarge { asked, capacity: available } => {
            CError { asked: asked as u64, available: available as u64, ..none }
        }
        QueueError::Lost { lost } => CError { lost, ..none },
        QueueError::PeerLied(lie) | QueueError::Poisoned(lie) => of_lie(none, lie),
        _ => none,
    }
}

fn of_lie(none: CError, lie: Lie) -> CError {
    let rule = match lie.kind {
        LieKind::OutOfReach => 1,
        LieKind::Backwards => 2,
        LieKind::Misaligned => 3,
        _ => 4,
    };
    CError { lie: rule, seen: lie.seen, ours: lie.ours, ring_bytes: lie.ring_bytes, ..none }
}

fn of_setup(none: CError, error: &SetupError) -> CError {
    match *error {
        SetupError::Quantum { theirs, ours } => CError { asked: ours, available: theirs, ..none },
        SetupError::TooLarge { bytes, limit } => CError { asked: bytes, available: limit, ..none },
        SetupError::Grantors { count } => CError { asked: 3, available: count as u64, ..none },
        SetupError::Grantor { part, .. } => CError { part: number(part), ..none },
        SetupError::Overlap { first, .. } => CError { part: number(first), ..none },
        SetupError::PastEnd { part, end, size } => {
            CError { part: number(part), asked: end, available: size, ..none }
        }
        SetupError::Unsealed { part, source } => {
            CError { part: number(part), system: source as i32, ..none }
        }
        SetupError::Counters { read, written, ring_bytes } => {
            CError { seen: written, ours: read, ring_bytes, ..none }
        }
        SetupError::System { source, .. } => CError { system: source as i32, ..none },
        _ => none,
    }
}

fn number(part: Part) -> i32 {
    match part {
        Part::ReadCounter => 0,
        Part::WriteCounter => 1,
        Part::Ring => 2,
        _ => 3,
    }
}
