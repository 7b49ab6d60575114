//! The body of a fuzz target, for libFuzzer and property tests alike; feature `testing`.

use std::os::fd::OwnedFd;

use nnburst_hal::HalError;

use crate::wire::{
    self, BurstBody, Call, CallbackEvent, DescriptorsIn, Failure, FencedBody, GREETING_BYTES,
    HEADER_BYTES, Header, MemoryBody, Question,
};

/// Reads bytes as everything that may come over a socket, on either side, with a few descriptors
/// beside them. Whether any of it was a message.
///
/// # Panics
/// A header was taken that breaks its rules: that is the finding.
pub fn fuzz_wire(bytes: &[u8]) -> bool {
    if let Some(greeting) = bytes.first_chunk::<GREETING_BYTES>() {
        drop(wire::parse_greeting(greeting));
    }
    if let Some(header) = bytes.first_chunk::<HEADER_BYTES>()
        && let Ok(header) = Header::parse(*header, 1 << 20)
    {
        assert!(header.bytes <= 1 << 20 && header.to_bytes() == bytes[..HEADER_BYTES]);
    }
    let event = wire::decode_all::<CallbackEvent>(bytes).is_ok();
    let question = wire::decode_all::<Question>(bytes).is_ok();
    let answers = wire::decode_all::<Result<FencedBody, Failure>>(bytes).is_ok()
        | wire::decode_all::<Result<BurstBody, Failure>>(bytes).is_ok()
        | wire::decode_all::<Result<Vec<MemoryBody>, Failure>>(bytes).is_ok();
    event | question | answers | fuzz_call(bytes)
}

/// As far as a service goes before it asks the device.
fn fuzz_call(bytes: &[u8]) -> bool {
    let Ok((call, tail)) = wire::decode::<Call>(bytes) else { return false };
    let files = (0..3).filter_map(|_| std::fs::File::open("/dev/null").ok()).map(OwnedFd::from);
    let fds = &mut DescriptorsIn::uncharged(files.collect());
    let refused: Option<HalError> = match call {
        Call::SupportedOperations { model } => model.into_model(tail.to_vec(), fds).err(),
        Call::PrepareModel { model, cache, .. } => {
            model.into_model(tail.to_vec(), fds).err().or_else(|| cache.into_handles(fds).err())
        }
        Call::PrepareModelFromCache { cache, .. } => cache.into_handles(fds).err(),
        Call::ExecuteSynchronously { request, .. }
        | Call::Execute { request, .. }
        | Call::ExecuteFenced { request, .. } => request.into_request(fds).err(),
        Call::CopyTo { destination: memory, .. } | Call::CopyFrom { source: memory, .. } => {
            fds.memory(memory).err()
        }
        Call::ConfigureBurst { requests, results, .. } => {
            requests.into_descriptor(fds).err().or_else(|| results.into_descriptor(fds).err())
        }
        _ => None,
    };
    refused.is_none()
}
