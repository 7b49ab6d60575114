//! The bytes on the socket: greeting, frame header, and messages in bincode.
//!
//! ```text
//! greeting, once each way   "NNBURST\0"  u32 version  u32 verdict
//! frame                     u32 bytes  u16 descriptors  u8 kind  u8 0  u64 id  |  message  |  tail
//! ```
//!
//! All numbers are little-endian; messages are bincode 2 "standard" (variable-length integers). A
//! frame's file descriptors come with its first byte. The tail is whatever follows the message: the
//! constants of a model, which are not worth a second copy. Everything the crate knows of bincode
//! is in this module, and golden bytes pin what it makes, so that another encoder can take its
//! place.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod bodies;
mod decoder;
mod messages;

use nnburst_hal::{Charge, HalError, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use decoder::{DecodeError, Decoder};

pub(crate) use bodies::{
    CacheBody, DescriptorsIn, DescriptorsOut, MemoryBody, ModelRef, QueueBody, RequestBody,
};
pub(crate) use messages::{
    BurstBody, Call, CallRef, CallbackEvent, Failure, FencedBody, Made, Question, TraceBody,
};

/// The version of everything in this module. Any change to a message or its order makes a new one.
pub const PROTOCOL_VERSION: u32 = 3;

/// No message is longer, whatever a service's own limit allows.
pub(crate) const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// No message is larger without its tail, as a decoder counts: hundreds of thousands of operations.
const MAX_HEAD_BYTES: usize = 32 << 20;

/// As many file descriptors as Linux takes in one message.
pub(crate) const MAX_DESCRIPTORS: usize = 253;

const MAGIC: [u8; 8] = *b"NNBURST\0";

/// Bytes of a greeting.
pub(crate) const GREETING_BYTES: usize = 16;

/// Bytes before every message.
pub(crate) const HEADER_BYTES: usize = 16;

/// The service's answer to a new client; a client says [`Welcome`](Self::Welcome), or what else it
/// has come for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Speak.
    Welcome,
    /// We don't speak your version; ours is in the greeting.
    OtherVersion,
    /// You have as many connections as you may.
    TooMany,
    /// This process is to take the service's place; as an answer, that it may.
    Succession,
    /// You may not take the service's place, or another process is about to.
    Denied,
}

impl Verdict {
    const fn code(self) -> u32 {
        match self {
            Self::Welcome => 0,
            Self::OtherVersion => 1,
            Self::TooMany => 2,
            Self::Succession => 3,
            Self::Denied => 4,
        }
    }
}

/// The first bytes of either side.
pub(crate) fn greeting(verdict: Verdict) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    let (magic, rest) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    let (version, code) = rest.split_at_mut(4);
    version.copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    code.copy_from_slice(&verdict.code().to_le_bytes());
    bytes
}

/// Version and verdict of a greeting.
///
/// # Errors
/// The other side speaks something else altogether.
pub(crate) fn parse_greeting(bytes: &[u8; GREETING_BYTES]) -> Result<(u32, Verdict), WireError> {
    let (magic, numbers) = bytes.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(WireError::NotOurs);
    }
    let (version, code) = numbers.split_at(4);
    let verdict = match number(code) {
        0 => Verdict::Welcome,
        1 => Verdict::OtherVersion,
        2 => Verdict::TooMany,
        3 => Verdict::Succession,
        4 => Verdict::Denied,
        code => return Err(WireError::Verdict { code }),
    };
    Ok((number(version), verdict))
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Wants an answer with the same id.
    Call,
    /// The answer to a call of the other side.
    Answer,
    /// Wants no answer.
    Note,
    /// Asks whether the other side is there; answered at once, by whoever reads the socket.
    Ping,
    /// The answer to a ping.
    Pong,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of message and tail.
    pub(crate) bytes: u32,
    /// File descriptors that came with the header.
    pub(crate) descriptors: u16,
    pub(crate) kind: Kind,
    /// Of the call that is made or answered; 0 for notes.
    pub(crate) id: u64,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let kind: u8 = match self.kind {
            Kind::Call => 1,
            Kind::Answer => 2,
            Kind::Note => 3,
            Kind::Ping => 4,
            Kind::Pong => 5,
        };
        // A single number puts each field where its shift says, in little-endian order.
        let number = u128::from(self.bytes)
            | u128::from(self.descriptors) << 32
            | u128::from(kind) << 48
            | u128::from(self.id) << 64;
        number.to_le_bytes()
    }

    /// # Errors
    /// An unknown kind, or more than `limit` bytes.
    pub(crate) fn parse(bytes: [u8; HEADER_BYTES], limit: usize) -> Result<Self, WireError> {
        let [b0, b1, b2, b3, d0, d1, kind, zero, id @ ..] = bytes;
        let kind = match kind {
            1 => Kind::Call,
            2 => Kind::Answer,
            3 => Kind::Note,
            4 => Kind::Ping,
            5 => Kind::Pong,
            code => return Err(WireError::Kind { code }),
        };
        if zero != 0 {
            return Err(WireError::Kind { code: zero });
        }
        let header = Self {
            bytes: u32::from_le_bytes([b0, b1, b2, b3]),
            descriptors: u16::from_le_bytes([d0, d1]),
            kind,
            id: u64::from_le_bytes(id),
        };
        let limit = limit.min(MAX_MESSAGE_BYTES);
        if usize::try_from(header.bytes).is_ok_and(|bytes| bytes <= limit) {
            Ok(header)
        } else {
            Err(WireError::TooLong { bytes: u64::from(header.bytes), limit })
        }
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// The errors of bytes from the other side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The greeting is not that of this protocol.
    #[error("the peer doesn't speak the nnburst protocol")]
    NotOurs,
    /// The greeting carries a verdict we don't know.
    #[error("the peer's verdict {code} is unknown")]
    Verdict {
        /// The verdict.
        code: u32,
    },
    /// The header names no kind of frame.
    #[error("{code} is no kind of frame")]
    Kind {
        /// The code that it names.
        code: u8,
    },
    /// The frame is longer than allowed.
    #[error("a message of {bytes} bytes is more than the {limit} allowed")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: usize,
    },
    /// The frame brought another number of file descriptors than it says.
    #[error("{came} file descriptors came with a frame that speaks of {said}")]
    Descriptors {
        /// In the header.
        said: u16,
        /// Received.
        came: usize,
    },
    /// The frame's bytes don't make a message.
    #[error("malformed message: {why}")]
    Malformed {
        /// The decoder's error.
        why: String,
    },
    /// A message can't be expressed.
    #[error("the message can't be encoded: {why}")]
    NotEncodable {
        /// The encoder's error.
        why: String,
    },
}

/// A value as bytes: a message, or what else is kept in this encoding, such as compilation caches.
///
/// # Errors
/// It is longer than any message may be.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, WireError> {
    bincode::serde::encode_to_vec(message, bincode::config::standard())
        .map_err(|error| WireError::NotEncodable { why: error.to_string() })
}

/// A value out of bytes that need not be trusted, and the tail behind it.
///
/// # Errors
/// The bytes don't make a message of this kind.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), WireError> {
    decode_within(bytes, MAX_MESSAGE_BYTES).map_err(malformed)
}

fn decode_within<T: DeserializeOwned>(
    bytes: &[u8],
    limit: usize,
) -> Result<(T, &[u8]), DecodeError> {
    let mut decoder = Decoder::new(bytes, limit);
    let message = T::deserialize(&mut decoder)?;
    Ok((message, decoder.rest))
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes by value")]
fn malformed(error: DecodeError) -> WireError {
    WireError::Malformed { why: error.to_string() }
}

/// Bytes of memory that may become of a byte that a decoder counts: it counts a number of 32 bits
/// as 4 bytes, and what is made of a sequence may be thrice as large as its elements while it
/// grows.
const DECODED: u64 = 12;

/// The numbers of bytes that decoders may count, and the charges for them. The least comes with
/// each connection.
const RUNGS: [(usize, u64); 4] = [
    (16 << 10, 0),
    (256 << 10, DECODED << 18),
    (4 << 20, DECODED << 22),
    (MAX_HEAD_BYTES, DECODED << 25),
];

/// A message of a peer, and its tail. What the message may become is charged before it is decoded.
///
/// # Errors
/// The bytes don't make a message of this kind, or the charge can't grow by what it may take.
pub(crate) fn decode_charged<T: DeserializeOwned>(
    mut bytes: Vec<u8>,
    charge: &mut Charge,
) -> nnburst_hal::Result<(T, Vec<u8>)> {
    let mut charged = 0u64;
    for (limit, memory) in RUNGS {
        charge.grow(Resource::Memory, memory.saturating_sub(charged))?;
        charged = memory;
        match decode_within(&bytes, limit) {
            Ok((message, tail)) => {
                let used = bytes.len().saturating_sub(tail.len());
                bytes.drain(..used);
                return Ok((message, bytes));
            }
            Err(DecodeError::LimitExceeded) if limit < MAX_HEAD_BYTES => {}
            Err(error) => return Err(HalError::invalid(malformed(error).to_string())),
        }
    }
    Err(HalError::invalid("the message is larger than any may be"))
}

/// A message without a tail.
///
/// # Errors
/// As for [`decode`]; also if anything is left over.
pub(crate) fn decode_all<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    let (message, tail) = decode(bytes)?;
    no_tail(tail)?;
    Ok(message)
}

fn no_tail(tail: &[u8]) -> Result<(), WireError> {
    if tail.is_empty() {
        return Ok(());
    }
    Err(WireError::Malformed { why: format!("{} bytes left over", tail.len()) })
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "bytes of our own")]
mod tests;
