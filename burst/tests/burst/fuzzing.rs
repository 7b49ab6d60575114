//! The fuzz targets' bodies, driven by proptest so that they run everywhere.

use bytemuck::bytes_of;
use nnburst_burst::Processor;
use nnburst_burst::packet::{RequestDatum, RequestItem, ResultDatum, ResultItem};
use nnburst_burst::testing::{live_controller, live_server};
use nnburst_hal::{DataLocation, Timing};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

/// Elements that make sense by themselves, so that packets get past the first check.
fn request_element() -> impl Strategy<Value = RequestDatum> {
    let small = || 0..9u32;
    let operand = (small(), small(), small(), any::<bool>()).prop_map(
        |(pool_index, length, dimensions, input)| {
            let location = DataLocation { pool_index, offset: 0, length };
            let has_no_value = false;
            if input {
                RequestItem::InputOperand { has_no_value, location, dimensions }
            } else {
                RequestItem::OutputOperand { has_no_value, location, dimensions }
            }
        },
    );
    prop_oneof![
        (small(), small(), small(), small()).prop_map(|(packet_size, inputs, outputs, pools)| {
            RequestItem::PacketInformation { packet_size, inputs, outputs, pools }
        }),
        operand,
        any::<u32>().prop_map(RequestItem::InputDimension),
        any::<u32>().prop_map(RequestItem::OutputDimension),
        any::<i32>().prop_map(RequestItem::PoolIdentifier),
        any::<bool>().prop_map(RequestItem::MeasureTiming),
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(deadline, loop_timeout, word)| {
            let (processor, low_power) = (Processor::from_word(word), word % 2 == 1);
            RequestItem::ExecutionLimits { deadline, loop_timeout, processor, low_power }
        }),
        any::<u32>().prop_map(RequestItem::PoolToken),
    ]
    .prop_map(RequestDatum::new)
}

fn result_element() -> impl Strategy<Value = ResultDatum> {
    prop_oneof![
        (0..5u32, 0..9i32, 0..3u32).prop_map(|(packet_size, status, operands)| {
            ResultItem::PacketInformation { packet_size, status, operands }
        }),
        (any::<bool>(), 0..3u32).prop_map(|(is_sufficient, dimensions)| ResultItem::Operand {
            is_sufficient,
            dimensions
        }),
        any::<u32>().prop_map(ResultItem::Dimension),
        Just(ResultItem::ExecutionTiming(Timing::NONE)),
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(began, ended, word)| {
            ResultItem::DriverTimes { began, ended, processor: Processor::from_word(word) }
        }),
    ]
    .prop_map(ResultDatum::new)
}

/// Packets as the bodies take them: a count, then as many elements.
fn stream<D: bytemuck::Pod + std::fmt::Debug>(
    element: impl Strategy<Value = D>,
) -> impl Strategy<Value = Vec<u8>> {
    vec(vec(element, 0..8), 0..8).prop_map(|packets| {
        let mut bytes = Vec::new();
        for packet in packets {
            bytes.push(u8::try_from(packet.len()).unwrap());
            bytes.extend(packet.iter().flat_map(bytes_of));
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_server_answers_whatever_comes(bytes in stream(request_element())) {
        live_server(&bytes);
    }

    #[test]
    fn a_server_answers_any_bytes(bytes in vec(any::<u8>(), 0..400)) {
        live_server(&bytes);
    }

    #[test]
    fn a_controller_takes_whatever_comes(bytes in stream(result_element())) {
        live_controller(&bytes);
    }

    #[test]
    fn a_controller_takes_any_bytes(bytes in vec(any::<u8>(), 0..400)) {
        live_controller(&bytes);
    }
}
