//! Answer packets.

use nnburst_hal::{ErrorStatus, OutputShape, Timing};

use super::{Cursor, Dialect, PacketError, ResultDatum, ResultItem, count, make_room};
use crate::processor::Processor;

/// The outcome of an execution, in storage that is used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstAnswer {
    /// `NONE` for success.
    pub status: ErrorStatus,
    /// One per output on success and with `OUTPUT_INSUFFICIENT_SIZE`, else empty.
    pub output_shapes: Vec<OutputShape>,
    /// As far as measured.
    pub timing: Timing,
    /// The driver's clock, in [`Dialect::Extended`] alone.
    pub driver_times: Option<DriverTimes>,
}

impl Default for BurstAnswer {
    fn default() -> Self {
        Self {
            status: ErrorStatus::GeneralFailure,
            output_shapes: Vec::new(),
            timing: Timing::NONE,
            driver_times: None,
        }
    }
}

/// Times at which a driver began and ended, nanoseconds of `CLOCK_MONOTONIC`, and where it ran.
/// Said by the driver, hence not to be trusted further than a figure in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverTimes {
    /// The time at which the driver had the packet.
    pub began: u64,
    /// The time at which the answer was known.
    pub ended: u64,
    /// The processor that it ran on.
    pub processor: Processor,
}

impl BurstAnswer {
    /// Becomes a failure without shapes and timing; keeps the storage of the list.
    pub fn fail(&mut self, status: ErrorStatus) {
        self.status = status;
        self.output_shapes.clear();
        self.timing = Timing::NONE;
        self.driver_times = None;
    }
}

/// Writes the packet of an answer into `packet`, whose storage is used again. In
/// [`Dialect::Android`] the statuses of 1.3 become `GENERAL_FAILURE`.
///
/// # Errors
/// [`PacketError::TooMany`] for counts beyond 32 bits; the content of `packet` means nothing then.
pub fn serialize_answer(
    answer: &BurstAnswer,
    dialect: Dialect,
    packet: &mut Vec<ResultDatum>,
) -> Result<(), PacketError> {
    let status = match dialect {
        Dialect::Android => answer.status.before_v1_3(),
        Dialect::Extended => answer.status,
    };
    let operands = count(answer.output_shapes.len(), "outputs")?;
    let information = |packet_size| {
        let status = status.code();
        ResultDatum::new(ResultItem::PacketInformation { packet_size, status, operands })
    };
    packet.clear();
    packet.push(information(0));
    for shape in &answer.output_shapes {
        packet.push(ResultDatum::new(ResultItem::Operand {
            is_sufficient: shape.is_sufficient,
            dimensions: count(shape.dimensions.len(), "dimensions")?,
        }));
        let extent = |&extent| ResultDatum::new(ResultItem::Dimension(extent));
        packet.extend(shape.dimensions.iter().map(extent));
    }
    if dialect == Dialect::Extended
        && let Some(DriverTimes { began, ended, processor }) = answer.driver_times
    {
        packet.push(ResultDatum::new(ResultItem::DriverTimes { began, ended, processor }));
    }
    packet.push(ResultDatum::new(ResultItem::ExecutionTiming(answer.timing)));
    let size = count(packet.len(), "elements")?;
    if let Some(first) = packet.first_mut() {
        *first = information(size);
    }
    Ok(())
}

/// Takes a packet apart. `answer` is written anew; its storage is used again, so that packets of
/// the shape of the last one allocate nothing.
///
/// Shapes that came with a status that has none are dropped, as is the timing of a failure.
///
/// # Errors
/// The rule that the packet breaks; the content of `answer` means nothing then.
pub fn deserialize_answer(
    packet: &[ResultDatum],
    dialect: Dialect,
    answer: &mut BurstAnswer,
) -> Result<(), PacketError> {
    let information = packet.first().and_then(ResultDatum::item);
    let Some(ResultItem::PacketInformation { packet_size, status, operands }) = information else {
        return Err(PacketError::NoInformation { received: packet.len() });
    };
    let mut cursor = Cursor::after_information(packet, packet_size)?;
    let unknown = PacketError::Unexpected { at: 0, wanted: "known status" };
    answer.status = ErrorStatus::try_from(status).map_err(|_| unknown)?;
    let operands = cursor.bounded(operands, OPERAND)?;
    make_room(&mut answer.output_shapes, operands, "operands")?;
    answer
        .output_shapes
        .resize_with(operands, || OutputShape { dimensions: Vec::new(), is_sufficient: false });
    for shape in &mut answer.output_shapes {
        let (is_sufficient, dimensions) = cursor.next(OPERAND, |datum| match datum.item()? {
            ResultItem::Operand { is_sufficient, dimensions } => Some((is_sufficient, dimensions)),
            _ => None,
        })?;
        shape.is_sufficient = is_sufficient;
        shape.dimensions.clear();
        let dimensions = cursor.bounded(dimensions, DIMENSION)?;
        make_room(&mut shape.dimensions, dimensions, "dimensions")?;
        for _ in 0..dimensions {
            shape.dimensions.push(cursor.next(DIMENSION, |datum| match datum.item()? {
                ResultItem::Dimension(extent) => Some(extent),
                _ => None,
            })?);
        }
    }
    answer.driver_times = None;
    if dialect == Dialect::Extended {
        answer.driver_times = cursor.next_if(|datum| match datum.item()? {
            ResultItem::DriverTimes { began, ended, processor } => {
                Some(DriverTimes { began, ended, processor })
            }
            _ => None,
        });
    }
    answer.timing = cursor.next("execution timing", |datum| match datum.item()? {
        ResultItem::ExecutionTiming(timing) => Some(timing),
        _ => None,
    })?;
    cursor.end()?;
    drop_what_failures_have_not(answer);
    Ok(())
}

const OPERAND: &str = "operand information";
const DIMENSION: &str = "operand dimension value";

fn drop_what_failures_have_not(answer: &mut BurstAnswer) {
    match answer.status {
        ErrorStatus::None => return,
        ErrorStatus::OutputInsufficientSize => {}
        _ => answer.output_shapes.clear(),
    }
    answer.timing = Timing::NONE;
}
