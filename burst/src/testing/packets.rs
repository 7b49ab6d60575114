//! Bodies of the packet fuzz targets, as plain functions that any bytes can be thrown at.

use bytemuck::pod_read_unaligned;

use crate::packet::{
    BurstAnswer, BurstRequest, Dialect, RequestDatum, ResultDatum, deserialize_answer,
    deserialize_request, serialize_answer, serialize_request,
};

const DIALECTS: [Dialect; 2] = [Dialect::Android, Dialect::Extended];

/// A driver takes any bytes as a request packet; what it accepts says the same when it is sent on.
///
/// # Panics
/// If a packet that was accepted changes its meaning on the way through.
pub fn request_packet(bytes: &[u8]) {
    let packet: Vec<RequestDatum> = bytes.chunks_exact(24).map(pod_read_unaligned).collect();
    let (mut first, mut second) = (BurstRequest::default(), BurstRequest::default());
    let mut again = Vec::new();
    for dialect in DIALECTS {
        if deserialize_request(&packet, dialect, &mut first).is_err() {
            continue;
        }
        let options = first.options;
        let sent = serialize_request(&first.request, &first.pools, &options, dialect, &mut again);
        assert_eq!(sent, Ok(()));
        assert_eq!(deserialize_request(&again, dialect, &mut second), Ok(()));
        assert_eq!(first.request.inputs, second.request.inputs);
        assert_eq!(first.request.outputs, second.request.outputs);
        assert_eq!(first.pools, second.pools);
        assert_eq!(first.options.deadline, second.options.deadline);
        assert_eq!(first.options.loop_timeout, second.options.loop_timeout);
        assert_eq!(first.options.measure, second.options.measure);
    }
}

/// A client takes any bytes as an answer packet; what it accepts says the same when it is sent on.
///
/// # Panics
/// If a packet that was accepted changes its meaning on the way through.
pub fn answer_packet(bytes: &[u8]) {
    let packet: Vec<ResultDatum> = bytes.chunks_exact(24).map(pod_read_unaligned).collect();
    let (mut first, mut second) = (BurstAnswer::default(), BurstAnswer::default());
    let mut again = Vec::new();
    for dialect in DIALECTS {
        if deserialize_answer(&packet, dialect, &mut first).is_err() {
            continue;
        }
        assert_eq!(serialize_answer(&first, dialect, &mut again), Ok(()));
        assert_eq!(deserialize_answer(&again, dialect, &mut second), Ok(()));
        if dialect == Dialect::Android {
            first.status = first.status.before_v1_3();
        }
        assert_eq!(first, second);
    }
}
