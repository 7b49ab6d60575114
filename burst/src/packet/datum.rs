//! The elements of packets, as they lie in the queues: 24 bytes each, tag first, then the payload.
//!
//! Layouts are those of Android's `FmqRequestDatum` and `FmqResultDatum` (HIDL safe unions). Bytes
//! that carry nothing are always zero on the way out, the three after a bool too, and ignored on
//! the way in.

use bytemuck::{Pod, Zeroable};
use nnburst_hal::{DataLocation, Timing};

use crate::processor::Processor;

/// An element of a request packet as bytes. [`RequestDatum::item`] says what it means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RequestDatum {
    tag: u8,
    padding: [u8; 3],
    payload: [u32; 5],
}

/// An element of an answer packet as bytes. [`ResultDatum::item`] says what it means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(8))]
pub struct ResultDatum {
    tag: u8,
    padding: [u8; 3],
    /// Padding but in [`ResultItem::DriverTimes`].
    processor: u32,
    payload: [u32; 4],
}

/// The bit of a request's last four bytes of limits that asks the driver to sleep afterwards.
const LOW_POWER: u32 = Processor::UNUSED;

const _: () = assert!(size_of::<RequestDatum>() == 24 && align_of::<RequestDatum>() == 4);
const _: () = assert!(size_of::<ResultDatum>() == 24 && align_of::<ResultDatum>() == 8);

/// The content of an element of a request packet. Discriminators in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestItem {
    /// Size of the packet in elements, and counts (0).
    PacketInformation {
        /// Elements of the packet, this one included.
        packet_size: u32,
        /// Inputs.
        inputs: u32,
        /// Outputs.
        outputs: u32,
        /// Pools.
        pools: u32,
    },
    /// An input (1).
    InputOperand {
        /// The optional input is left out.
        has_no_value: bool,
        /// The place of its bytes.
        location: DataLocation,
        /// Number of elements with an extent that follow.
        dimensions: u32,
    },
    /// An extent of the last input (2).
    InputDimension(u32),
    /// An output (3).
    OutputOperand {
        /// The optional output is left out.
        has_no_value: bool,
        /// The place for its bytes.
        location: DataLocation,
        /// Number of elements with an extent that follow.
        dimensions: u32,
    },
    /// An extent of the last output (4).
    OutputDimension(u32),
    /// The slot of a pool (5).
    PoolIdentifier(i32),
    /// `true` if timing is wanted (6).
    MeasureTiming(bool),
    /// Ours: when the answer is of no use any more, on the monotonic clock, and how long a WHILE
    /// may run; nanoseconds, `u64::MAX` for no limit (7).
    ExecutionLimits {
        /// Nanoseconds of `CLOCK_MONOTONIC`.
        deadline: u64,
        /// Nanoseconds.
        loop_timeout: u64,
        /// The processor that the client sent the packet from, in the last four bytes.
        processor: Processor,
        /// `true` if the driver is to sleep after this request instead of polling for the next: a
        /// bit of the last four bytes that no processor has.
        low_power: bool,
    },
    /// Ours: a driver-managed buffer in place of a slot (8).
    PoolToken(u32),
}

/// The content of an element of an answer packet. Discriminators in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultItem {
    /// Size of the packet in elements, status, and how many outputs are reported (0).
    PacketInformation {
        /// Elements of the packet, this one included.
        packet_size: u32,
        /// The code of an `ErrorStatus`; not checked here.
        status: i32,
        /// Outputs reported.
        operands: u32,
    },
    /// An output (1).
    Operand {
        /// `true` if its buffer was large enough.
        is_sufficient: bool,
        /// Number of elements with an extent that follow.
        dimensions: u32,
    },
    /// An extent of the last output (2).
    Dimension(u32),
    /// The time that it took (3).
    ExecutionTiming(Timing),
    /// Ours: the driver's clock when it began and ended, nanoseconds of `CLOCK_MONOTONIC`, and
    /// where it ran (4).
    DriverTimes {
        /// The time at which the driver had the packet.
        began: u64,
        /// The time at which the answer was known.
        ended: u64,
        /// The processor, in the four bytes before the payload, which other elements leave zero.
        processor: Processor,
    },
}

impl RequestDatum {
    /// The element as bytes.
    pub fn new(item: RequestItem) -> Self {
        let (tag, payload) = match item {
            RequestItem::PacketInformation { packet_size, inputs, outputs, pools } => {
                (0, [packet_size, inputs, outputs, pools, 0])
            }
            RequestItem::InputOperand { has_no_value, location, dimensions } => {
                (1, operand(has_no_value, location, dimensions))
            }
            RequestItem::InputDimension(extent) => (2, [extent, 0, 0, 0, 0]),
            RequestItem::OutputOperand { has_no_value, location, dimensions } => {
                (3, operand(has_no_value, location, dimensions))
            }
            RequestItem::OutputDimension(extent) => (4, [extent, 0, 0, 0, 0]),
            RequestItem::PoolIdentifier(slot) => (5, [slot.cast_unsigned(), 0, 0, 0, 0]),
            RequestItem::MeasureTiming(measure) => (6, [u32::from(measure), 0, 0, 0, 0]),
            RequestItem::ExecutionLimits { deadline, loop_timeout, processor, low_power } => {
                let [[d0, d1], [l0, l1]] = [halves(deadline), halves(loop_timeout)];
                let low_power = if low_power { LOW_POWER } else { 0 };
                (7, [d0, d1, l0, l1, processor.to_word() | low_power])
            }
            RequestItem::PoolToken(token) => (8, [token, 0, 0, 0, 0]),
        };
        Self { tag, padding: [0; 3], payload }
    }

    /// The meaning of the bytes; `None` for an unknown tag or a bool that is neither.
    pub fn item(&self) -> Option<RequestItem> {
        let [a, b, c, d, e] = self.payload;
        let location = DataLocation { pool_index: b, offset: c, length: d };
        Some(match self.tag {
            0 => RequestItem::PacketInformation { packet_size: a, inputs: b, outputs: c, pools: d },
            1 => RequestItem::InputOperand { has_no_value: truth(a)?, location, dimensions: e },
            2 => RequestItem::InputDimension(a),
            3 => RequestItem::OutputOperand { has_no_value: truth(a)?, location, dimensions: e },
            4 => RequestItem::OutputDimension(a),
            5 => RequestItem::PoolIdentifier(a.cast_signed()),
            // An enum of 32 bits in Android, of the two values that a bool has.
            6 => RequestItem::MeasureTiming(match a {
                0 => false,
                1 => true,
                _ => return None,
            }),
            7 => RequestItem::ExecutionLimits {
                deadline: whole([a, b]),
                loop_timeout: whole([c, d]),
                processor: Processor::from_word(e),
                low_power: e & LOW_POWER != 0,
            },
            8 => RequestItem::PoolToken(a),
            _ => return None,
        })
    }
}

impl RequestDatum {
    /// Writes the client's processor, and whether to sleep afterwards, into the element of the
    /// execution limits.
    #[inline]
    pub(crate) fn set_sender(&mut self, processor: Processor, low_power: bool) {
        let [.., last] = &mut self.payload;
        *last = processor.to_word() | if low_power { LOW_POWER } else { 0 };
    }
}

impl ResultDatum {
    /// The element as bytes.
    pub fn new(item: ResultItem) -> Self {
        let (tag, payload) = match item {
            ResultItem::PacketInformation { packet_size, status, operands } => {
                (0, [packet_size, status.cast_unsigned(), operands, 0])
            }
            ResultItem::Operand { is_sufficient, dimensions } => {
                (1, [first_byte(is_sufficient), dimensions, 0, 0])
            }
            ResultItem::Dimension(extent) => (2, [extent, 0, 0, 0]),
            ResultItem::ExecutionTiming(Timing { time_on_device, time_in_driver }) => {
                (3, two(time_on_device, time_in_driver))
            }
            ResultItem::DriverTimes { began, ended, processor } => {
                let (processor, payload) = (processor.to_word(), two(began, ended));
                return Self { tag: 4, padding: [0; 3], processor, payload };
            }
        };
        Self { tag, padding: [0; 3], processor: 0, payload }
    }

    /// The meaning of the bytes; `None` for an unknown tag or a bool that is neither.
    pub fn item(&self) -> Option<ResultItem> {
        let [a, b, c, d] = self.payload;
        Some(match self.tag {
            0 => ResultItem::PacketInformation {
                packet_size: a,
                status: b.cast_signed(),
                operands: c,
            },
            1 => ResultItem::Operand { is_sufficient: truth(a)?, dimensions: b },
            2 => ResultItem::Dimension(a),
            3 => ResultItem::ExecutionTiming(Timing {
                time_on_device: whole([a, b]),
                time_in_driver: whole([c, d]),
            }),
            4 => ResultItem::DriverTimes {
                began: whole([a, b]),
                ended: whole([c, d]),
                processor: Processor::from_word(self.processor),
            },
            _ => return None,
        })
    }
}

fn operand(has_no_value: bool, location: DataLocation, dimensions: u32) -> [u32; 5] {
    let DataLocation { pool_index, offset, length } = location;
    [first_byte(has_no_value), pool_index, offset, length, dimensions]
}

/// A bool in the first byte of a word, the other three zero.
fn first_byte(value: bool) -> u32 {
    u32::from_ne_bytes([u8::from(value), 0, 0, 0])
}

/// The bool in the first byte of a word; the other three are padding and may be anything.
fn truth(word: u32) -> Option<bool> {
    match word.to_ne_bytes() {
        [0, ..] => Some(false),
        [1, ..] => Some(true),
        _ => None,
    }
}

/// A 64-bit number as the two words that take its place in memory.
fn halves(value: u64) -> [u32; 2] {
    bytemuck::cast(value)
}

fn whole(halves: [u32; 2]) -> u64 {
    bytemuck::cast(halves)
}

fn two(first: u64, second: u64) -> [u32; 4] {
    bytemuck::cast([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets of hal_types' derived layout, byte by byte.
    #[test]
    #[cfg(target_endian = "little")]
    fn bytes_lie_where_android_has_them() {
        let location = DataLocation { pool_index: 0x0101, offset: 0x0202, length: 0x0303 };
        struct Case {
            what: &'static str,
            got: [u8; 24],
            want: &'static [(usize, u8)],
        }
        let request = |item| bytemuck::cast(RequestDatum::new(item));
        let result = |item| bytemuck::cast(ResultDatum::new(item));
        let cases = [
            Case {
                what: "request information",
                got: request(RequestItem::PacketInformation {
                    packet_size: 1,
                    inputs: 2,
                    outputs: 3,
                    pools: 4,
                }),
                want: &[(4, 1), (8, 2), (12, 3), (16, 4)],
            },
            Case {
                what: "an input: bool, location, dimensions",
                got: request(RequestItem::InputOperand {
                    has_no_value: true,
                    location,
                    dimensions: 9,
                }),
                want: &[
                    (0, 1),
                    (4, 1),
                    (8, 1),
                    (9, 1),
                    (12, 2),
                    (13, 2),
                    (16, 3),
                    (17, 3),
                    (20, 9),
                ],
            },
            Case {
                what: "an output without a value's flag",
                got: request(RequestItem::OutputOperand {
                    has_no_value: false,
                    location: DataLocation::default(),
                    dimensions: 2,
                }),
                want: &[(0, 3), (20, 2)],
            },
            Case {
                what: "a slot",
                got: request(RequestItem::PoolIdentifier(-1)),
                want: &[(0, 5), (4, 255), (5, 255), (6, 255), (7, 255)],
            },
            Case {
                what: "measure",
                got: request(RequestItem::MeasureTiming(true)),
                want: &[(0, 6), (4, 1)],
            },
            Case {
                what: "result information",
                got: result(ResultItem::PacketInformation {
                    packet_size: 5,
                    status: 2,
                    operands: 1,
                }),
                want: &[(8, 5), (12, 2), (16, 1)],
            },
            Case {
                what: "a reported output: the three bytes after the bool are zero",
                got: result(ResultItem::Operand { is_sufficient: true, dimensions: 4 }),
                want: &[(0, 1), (8, 1), (12, 4)],
            },
            Case {
                what: "timing",
                got: result(ResultItem::ExecutionTiming(Timing {
                    time_on_device: 7,
                    time_in_driver: 8,
                })),
                want: &[(0, 3), (8, 7), (16, 8)],
            },
        ];
        for Case { what, got, want } in cases {
            let mut bytes = [0; 24];
            for &(at, value) in want {
                *bytes.get_mut(at).unwrap() = value;
            }
            assert_eq!(got, bytes, "{what}");
        }
    }

    #[test]
    fn tags_and_bools_that_mean_nothing_are_no_items() {
        assert_eq!(RequestDatum { tag: 9, ..Zeroable::zeroed() }.item(), None);
        assert_eq!(ResultDatum { tag: 5, ..Zeroable::zeroed() }.item(), None);
        let two = u32::from_ne_bytes([2, 0, 0, 0]);
        let datum = RequestDatum { tag: 1, padding: [0; 3], payload: [two, 0, 0, 0, 0] };
        assert_eq!(datum.item(), None, "a bool of 2");
        let padded = u32::from_ne_bytes([1, 0xAA, 0xBB, 0xCC]);
        let datum =
            ResultDatum { tag: 1, padding: [3; 3], processor: 3, payload: [padded, 0, 0, 0] };
        let want = ResultItem::Operand { is_sufficient: true, dimensions: 0 };
        assert_eq!(datum.item(), Some(want), "padding is ignored");
    }
}
