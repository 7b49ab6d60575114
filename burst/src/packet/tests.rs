//! Round trips, every rule of a packet broken once, and bytes of all kinds.

use std::time::Duration;

use nnburst_hal::{
    DataLocation, ErrorStatus, ExecutionOptions, MeasureTiming, OutputShape, Request,
    RequestArgument, TimePoint, Timing,
};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, proptest};

use super::*;
use crate::testing;

fn argument(pool_index: u32, dimensions: &[u32]) -> RequestArgument {
    RequestArgument {
        has_no_value: false,
        location: DataLocation { pool_index, offset: 8, length: 64 },
        dimensions: dimensions.to_vec(),
    }
}

fn request() -> Request {
    Request {
        inputs: vec![argument(0, &[1, 8, 8, 3]), argument(1, &[])],
        outputs: vec![argument(1, &[1, 10])],
        pools: Vec::new(),
    }
}

fn packet(dialect: Dialect, options: &ExecutionOptions) -> Vec<RequestDatum> {
    let mut packet = Vec::new();
    let pools = [BurstPool::Slot(0), BurstPool::Slot(5)];
    serialize_request(&request(), &pools, options, dialect, &mut packet).unwrap();
    packet
}

fn answer() -> BurstAnswer {
    BurstAnswer {
        status: ErrorStatus::None,
        output_shapes: vec![
            OutputShape { dimensions: vec![1, 10], is_sufficient: true },
            OutputShape { dimensions: vec![], is_sufficient: true },
        ],
        timing: Timing { time_on_device: 3, time_in_driver: u64::MAX - 1 },
        driver_times: None,
    }
}

#[test]
fn a_request_has_the_elements_of_the_protocol_in_its_order() {
    let items: Vec<_> = packet(Dialect::Android, &ExecutionOptions::default())
        .iter()
        .map(|datum| datum.item().unwrap())
        .collect();
    let location = |pool_index| DataLocation { pool_index, offset: 8, length: 64 };
    let input = |pool_index, dimensions| RequestItem::InputOperand {
        has_no_value: false,
        location: location(pool_index),
        dimensions,
    };
    let want = [
        RequestItem::PacketInformation { packet_size: 13, inputs: 2, outputs: 1, pools: 2 },
        input(0, 4),
        RequestItem::InputDimension(1),
        RequestItem::InputDimension(8),
        RequestItem::InputDimension(8),
        RequestItem::InputDimension(3),
        input(1, 0),
        RequestItem::OutputOperand { has_no_value: false, location: location(1), dimensions: 2 },
        RequestItem::OutputDimension(1),
        RequestItem::OutputDimension(10),
        RequestItem::PoolIdentifier(0),
        RequestItem::PoolIdentifier(5),
        RequestItem::MeasureTiming(false),
    ];
    assert_eq!(items, want);
}

#[test]
fn limits_and_tokens_travel_between_those_who_agreed_alone() {
    let options = ExecutionOptions {
        measure: MeasureTiming::Yes,
        deadline: Some(TimePoint { nanoseconds: 1 << 40 }),
        loop_timeout: Some(Duration::from_millis(15)),
    };
    let mut received = BurstRequest::default();
    let extended = packet(Dialect::Extended, &options);
    deserialize_request(&extended, Dialect::Extended, &mut received).unwrap();
    assert_eq!(received.options.deadline, options.deadline);
    assert_eq!(received.options.loop_timeout, options.loop_timeout);
    assert_eq!(
        deserialize_request(&extended, Dialect::Android, &mut received),
        Err(PacketError::Unexpected { at: 12, wanted: "measure timing" })
    );

    let android = packet(Dialect::Android, &options);
    assert_eq!(android.len(), 13, "nothing more than Android knows");
    deserialize_request(&android, Dialect::Android, &mut received).unwrap();
    assert_eq!(received.options.deadline, None);

    let tokens = [BurstPool::Token(7)];
    let mut out = Vec::new();
    let mut send =
        |dialect| serialize_request(&Request::default(), &tokens, &options, dialect, &mut out);
    assert_eq!(send(Dialect::Android), Err(PacketError::Token));
    send(Dialect::Extended).unwrap();
    deserialize_request(&out, Dialect::Extended, &mut received).unwrap();
    assert_eq!(received.pools, tokens);
}

#[test]
fn an_answer_comes_back_as_it_was() {
    let mut out = Vec::new();
    let mut received = BurstAnswer::default();
    serialize_answer(&answer(), Dialect::Android, &mut out).unwrap();
    assert_eq!(out.len(), 6);
    deserialize_answer(&out, Dialect::Android, &mut received).unwrap();
    assert_eq!(received, answer());

    let processor = crate::Processor::new(2, true);
    let times = Some(DriverTimes { began: 5, ended: u64::MAX, processor });
    let with_times = BurstAnswer { driver_times: times, ..answer() };
    serialize_answer(&with_times, Dialect::Extended, &mut out).unwrap();
    deserialize_answer(&out, Dialect::Extended, &mut received).unwrap();
    assert_eq!(received, with_times);
    assert!(deserialize_answer(&out, Dialect::Android, &mut received).is_err());
}

#[test]
fn a_failure_is_two_elements_and_loses_what_it_may_not_have() {
    let mut failure = answer();
    failure.fail(ErrorStatus::MissedDeadlineTransient);
    let mut out = Vec::new();
    serialize_answer(&failure, Dialect::Android, &mut out).unwrap();
    let items: Vec<_> = out.iter().map(|datum| datum.item().unwrap()).collect();
    let want = [
        ResultItem::PacketInformation {
            packet_size: 2,
            status: ErrorStatus::GeneralFailure.code(),
            operands: 0,
        },
        ResultItem::ExecutionTiming(Timing::NONE),
    ];
    assert_eq!(items, want, "the statuses of 1.3 are folded");

    let mut received = BurstAnswer::default();
    let odd = BurstAnswer { status: ErrorStatus::InvalidArgument, ..answer() };
    serialize_answer(&odd, Dialect::Android, &mut out).unwrap();
    deserialize_answer(&out, Dialect::Android, &mut received).unwrap();
    assert_eq!((received.output_shapes.len(), received.timing), (0, Timing::NONE));
    let short = BurstAnswer { status: ErrorStatus::OutputInsufficientSize, ..answer() };
    serialize_answer(&short, Dialect::Android, &mut out).unwrap();
    deserialize_answer(&out, Dialect::Android, &mut received).unwrap();
    assert_eq!((received.output_shapes.len(), received.timing), (2, Timing::NONE));
}

#[test]
fn every_rule_of_a_request_is_checked() {
    let information = |packet_size, inputs, outputs, pools| {
        RequestDatum::new(RequestItem::PacketInformation { packet_size, inputs, outputs, pools })
    };
    let input = |dimensions| {
        RequestDatum::new(RequestItem::InputOperand {
            has_no_value: false,
            location: DataLocation::default(),
            dimensions,
        })
    };
    let measure = RequestDatum::new(RequestItem::MeasureTiming(true));
    let slot = RequestDatum::new(RequestItem::PoolIdentifier(0));
    let due = |at, wanted| PacketError::Unexpected { at, wanted };
    struct Case<'a> {
        what: &'static str,
        packet: &'a [RequestDatum],
        want: PacketError,
    }
    let cases = [
        Case { what: "nothing", packet: &[], want: PacketError::NoInformation { received: 0 } },
        Case {
            what: "no information",
            packet: &[measure],
            want: PacketError::NoInformation { received: 1 },
        },
        Case {
            what: "size of the sentinel",
            packet: &[information(0, 0, 0, 0)],
            want: PacketError::Size { said: 0, received: 1 },
        },
        Case {
            what: "size too large",
            packet: &[information(u32::MAX, 0, 0, 0), measure],
            want: PacketError::Size { said: u32::MAX, received: 2 },
        },
        Case {
            what: "more inputs than elements",
            packet: &[information(2, u32::MAX, 0, 0), measure],
            want: due(2, "input operand information"),
        },
        Case {
            what: "another element than an input",
            packet: &[information(2, 1, 0, 0), measure],
            want: due(1, "input operand information"),
        },
        Case {
            what: "more dimensions than elements",
            packet: &[information(3, 1, 0, 0), input(u32::MAX), measure],
            want: due(3, "input operand dimension value"),
        },
        Case {
            what: "another element than a dimension",
            packet: &[information(3, 1, 0, 0), input(1), measure],
            want: due(2, "input operand dimension value"),
        },
        Case {
            what: "an input where an output is due",
            packet: &[information(3, 0, 1, 0), input(0), measure],
            want: due(1, "output operand information"),
        },
        Case {
            what: "more pools than elements",
            packet: &[information(3, 0, 0, 3), slot, measure],
            want: due(3, "pool identifier"),
        },
        Case {
            what: "another element than a pool",
            packet: &[information(3, 0, 0, 2), slot, measure],
            want: due(2, "pool identifier"),
        },
        Case {
            what: "no measure",
            packet: &[information(2, 0, 0, 1), slot],
            want: due(2, "measure timing"),
        },
        Case {
            what: "something left",
            packet: &[information(3, 0, 0, 0), measure, measure],
            want: PacketError::Leftover { left: 1 },
        },
    ];
    let mut received = BurstRequest::default();
    for Case { what, packet, want } in cases {
        for dialect in [Dialect::Android, Dialect::Extended] {
            assert_eq!(deserialize_request(packet, dialect, &mut received), Err(want), "{what}");
        }
    }
}

#[test]
fn every_rule_of_an_answer_is_checked() {
    let information = |packet_size, operands| {
        ResultDatum::new(ResultItem::PacketInformation { packet_size, status: 0, operands })
    };
    let operand =
        |dimensions| ResultDatum::new(ResultItem::Operand { is_sufficient: true, dimensions });
    let timing = ResultDatum::new(ResultItem::ExecutionTiming(Timing::NONE));
    let strange =
        ResultDatum::new(ResultItem::PacketInformation { packet_size: 2, status: 9, operands: 0 });
    let due = |at, wanted| PacketError::Unexpected { at, wanted };
    let cases: [(&str, &[ResultDatum], PacketError); 9] = [
        ("nothing", &[], PacketError::NoInformation { received: 0 }),
        ("no information", &[timing], PacketError::NoInformation { received: 1 }),
        ("sentinel", &[information(0, 0)], PacketError::Size { said: 0, received: 1 }),
        ("unknown status", &[strange, timing], due(0, "known status")),
        ("more outputs than elements", &[information(2, 9), timing], due(2, OPERAND)),
        ("another element than an output", &[information(2, 1), timing], due(1, OPERAND)),
        ("more dimensions than elements", &[information(3, 1), operand(2), timing], due(3, EXTENT)),
        ("no timing", &[information(2, 1), operand(0)], due(2, "execution timing")),
        ("something left", &[information(3, 0), timing, timing], PacketError::Leftover { left: 1 }),
    ];
    let mut received = BurstAnswer::default();
    for (what, packet, want) in cases {
        for dialect in [Dialect::Android, Dialect::Extended] {
            assert_eq!(deserialize_answer(packet, dialect, &mut received), Err(want), "{what}");
        }
    }
}

const OPERAND: &str = "operand information";
const EXTENT: &str = "operand dimension value";

#[test]
fn storage_is_used_again() {
    let packet = packet(Dialect::Android, &ExecutionOptions::default());
    let mut received = BurstRequest::default();
    deserialize_request(&packet, Dialect::Android, &mut received).unwrap();
    let place = |received: &BurstRequest| {
        let inputs = &received.request.inputs;
        (inputs.as_ptr(), inputs.first().unwrap().dimensions.as_ptr(), received.pools.as_ptr())
    };
    let before = place(&received);
    deserialize_request(&packet, Dialect::Android, &mut received).unwrap();
    assert_eq!(place(&received), before);
}

fn arguments() -> impl Strategy<Value = Vec<RequestArgument>> {
    let one = (any::<bool>(), any::<[u32; 3]>(), vec(any::<u32>(), 0..5));
    let one =
        one.prop_map(|(has_no_value, [pool_index, offset, length], dimensions)| RequestArgument {
            has_no_value,
            location: DataLocation { pool_index, offset, length },
            dimensions,
        });
    vec(one, 0..5)
}

fn any_packet() -> impl Strategy<Value = (Request, Vec<BurstPool>, Vec<RequestDatum>)> {
    let pools = vec(any::<i32>().prop_map(BurstPool::Slot), 0..4);
    (arguments(), arguments(), pools).prop_map(|(inputs, outputs, pools)| {
        let request = Request { inputs, outputs, pools: Vec::new() };
        let mut packet = Vec::new();
        let options = ExecutionOptions::default();
        serialize_request(&request, &pools, &options, Dialect::Android, &mut packet).unwrap();
        (request, pools, packet)
    })
}

/// A packet's bytes with some of them changed, and some of its elements gone or doubled.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let bytes =
        any_packet().prop_map(|(_, _, packet)| bytemuck::cast_slice::<_, u8>(&packet).to_vec());
    (bytes, vec((any::<usize>(), any::<u8>()), 0..4), Just(24usize), any::<usize>()).prop_map(
        |(mut bytes, changes, element, moved)| {
            let len = bytes.len();
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at.checked_rem(len).unwrap_or(0)) {
                    *byte = value;
                }
            }
            let elements = len.checked_div(element).unwrap_or(0);
            let at = moved.checked_rem(elements).unwrap_or(0).saturating_mul(element);
            let end = at.saturating_add(element);
            if moved & 1 == 0 {
                bytes.drain(at..end.min(len));
            } else {
                let copy = bytes.get(at..end).unwrap_or_default().to_vec();
                bytes.splice(at..at, copy);
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn any_request_comes_back_as_it_was((request, pools, packet) in any_packet()) {
        let mut received = BurstRequest::default();
        prop_assert_eq!(deserialize_request(&packet, Dialect::Android, &mut received), Ok(()));
        prop_assert_eq!(received.request.inputs, request.inputs);
        prop_assert_eq!(received.request.outputs, request.outputs);
        prop_assert_eq!(received.pools, pools);
    }

    #[test]
    fn damaged_packets_never_do_harm(bytes in damaged()) {
        testing::request_packet(&bytes);
        testing::answer_packet(&bytes);
    }

    #[test]
    fn any_bytes_never_do_harm(bytes in vec(any::<u8>(), 0..600)) {
        testing::request_packet(&bytes);
        testing::answer_packet(&bytes);
    }
}
