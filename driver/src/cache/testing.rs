//! For fuzzing: files whose sums are right, whatever else they say.

use super::checksum::Checksum;
use super::file::{Header, Role};
use super::stripe_sum::StripeSum;

/// The sum that cache files are known by, of bytes in one piece.
#[must_use]
pub fn stripe_sum(bytes: &[u8]) -> u64 {
    let mut sum = StripeSum::default();
    sum.add(bytes);
    sum.finish()
}

/// The contents of model and data file with the headers that their bodies call for, in the name of
/// whom the model file's header names, if it has one.
pub(crate) fn with_right_sums([model, data]: [Vec<u8>; 2]) -> [Vec<u8>; 2] {
    let start = usize::try_from(Header::BYTES).unwrap_or(usize::MAX);
    let bodies = [&model, &data].map(|file| file.get(start..).unwrap_or_default());
    let sums = bodies.map(Checksum::of);
    let said = |range: std::ops::Range<usize>| model.get(range).unwrap_or_default();
    let mut identity = [0; 8];
    identity.iter_mut().zip(said(16..24)).for_each(|(to, from)| *to = *from);
    let mut token = [0; nnburst_hal::CACHE_TOKEN_BYTES];
    token.iter_mut().zip(said(24..56)).for_each(|(to, from)| *to = *from);
    let file = |role, body: &[u8]| {
        let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
        let identity = u64::from_le_bytes(identity);
        let header = Header { role, identity, token, length, sums };
        let mut file = [&header.to_bytes()[..], body].concat();
        let bytes = header.file_bytes().and_then(|bytes| usize::try_from(bytes).ok());
        file.resize(bytes.unwrap_or(file.len()), 0);
        file
    };
    let [model, data] = bodies;
    [file(Role::Model, model), file(Role::Data, data)]
}
