//! Request packets.

use std::time::Duration;

use nnburst_hal::{
    DataLocation, ExecutionOptions, MeasureTiming, Request, RequestArgument, TimePoint,
};

use super::{Cursor, Dialect, PacketError, RequestDatum, RequestItem, count, make_room};
use crate::processor::Processor;

/// The element for a pool of a request in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BurstPool {
    /// The number that client and driver gave to a memory; not negative unless it comes from a
    /// packet.
    Slot(i32),
    /// A driver-managed buffer, in [`Dialect::Extended`] alone.
    Token(u32),
}

/// A request as it comes out of a packet, in storage that is used again.
#[derive(Debug, Default)]
pub struct BurstRequest {
    /// Arguments; the pools are left as they were: resolving them is the executor's part.
    pub request: Request,
    /// The pools that the arguments' locations index.
    pub pools: Vec<BurstPool>,
    /// Measuring, and limits if the packet had any.
    pub options: ExecutionOptions,
    /// The processor that the client sent it from, if it says so.
    pub processor: Processor,
    /// `true` if the client asks that nobody polls for its next request.
    pub low_power: bool,
}

/// Writes the packet of a request into `packet`, whose storage is used again. `request`'s own pools
/// are not looked at. A deadline and a loop timeout travel in [`Dialect::Extended`] alone.
///
/// # Errors
/// [`PacketError::TooMany`] for counts beyond 32 bits, [`PacketError::Token`] for a driver-managed
/// buffer in [`Dialect::Android`]. The content of `packet` means nothing then.
pub fn serialize_request(
    request: &Request,
    pools: &[BurstPool],
    options: &ExecutionOptions,
    dialect: Dialect,
    packet: &mut Vec<RequestDatum>,
) -> Result<(), PacketError> {
    let mut information = Information {
        inputs: count(request.inputs.len(), "inputs")?,
        outputs: count(request.outputs.len(), "outputs")?,
        pools: count(pools.len(), "pools")?,
        packet_size: 0,
    };
    packet.clear();
    packet.push(information.datum());
    for argument in &request.inputs {
        let (has_no_value, location, dimensions) = parts(argument)?;
        let item = RequestItem::InputOperand { has_no_value, location, dimensions };
        packet.push(RequestDatum::new(item));
        let extent = |&extent| RequestDatum::new(RequestItem::InputDimension(extent));
        packet.extend(argument.dimensions.iter().map(extent));
    }
    for argument in &request.outputs {
        let (has_no_value, location, dimensions) = parts(argument)?;
        let item = RequestItem::OutputOperand { has_no_value, location, dimensions };
        packet.push(RequestDatum::new(item));
        let extent = |&extent| RequestDatum::new(RequestItem::OutputDimension(extent));
        packet.extend(argument.dimensions.iter().map(extent));
    }
    for pool in pools {
        packet.push(pool_datum(*pool, dialect)?);
    }
    if dialect == Dialect::Extended
        && let Some(limits) = limits(options)
    {
        packet.push(RequestDatum::new(limits));
    }
    let measure = options.measure == MeasureTiming::Yes;
    packet.push(RequestDatum::new(RequestItem::MeasureTiming(measure)));
    information.packet_size = count(packet.len(), "elements")?;
    if let Some(first) = packet.first_mut() {
        *first = information.datum();
    }
    Ok(())
}

/// The element of a pool.
///
/// # Errors
/// [`PacketError::Token`] for a driver-managed buffer in [`Dialect::Android`].
pub(crate) fn pool_datum(pool: BurstPool, dialect: Dialect) -> Result<RequestDatum, PacketError> {
    Ok(RequestDatum::new(match (pool, dialect) {
        (BurstPool::Slot(slot), _) => RequestItem::PoolIdentifier(slot),
        (BurstPool::Token(token), Dialect::Extended) => RequestItem::PoolToken(token),
        (BurstPool::Token(_), Dialect::Android) => return Err(PacketError::Token),
    }))
}

/// Takes a packet apart. `received` is written anew; its storage is used again, so that packets of
/// the shape of the last one allocate nothing.
///
/// # Errors
/// The rule that the packet breaks; the content of `received` means nothing then.
pub fn deserialize_request(
    packet: &[RequestDatum],
    dialect: Dialect,
    received: &mut BurstRequest,
) -> Result<(), PacketError> {
    let information = packet.first().and_then(RequestDatum::item);
    let Some(RequestItem::PacketInformation { packet_size, inputs, outputs, pools }) = information
    else {
        return Err(PacketError::NoInformation { received: packet.len() });
    };
    let mut cursor = Cursor::after_information(packet, packet_size)?;
    take_arguments::<Inputs>(&mut cursor, inputs, &mut received.request.inputs)?;
    take_arguments::<Outputs>(&mut cursor, outputs, &mut received.request.outputs)?;
    let pools = cursor.bounded(pools, "pool identifier")?;
    received.pools.clear();
    make_room(&mut received.pools, pools, "pools")?;
    for _ in 0..pools {
        let pool = cursor.next("pool identifier", |datum| match (datum.item()?, dialect) {
            (RequestItem::PoolIdentifier(slot), _) => Some(BurstPool::Slot(slot)),
            (RequestItem::PoolToken(token), Dialect::Extended) => Some(BurstPool::Token(token)),
            _ => None,
        })?;
        received.pools.push(pool);
    }
    received.options = ExecutionOptions::default();
    (received.processor, received.low_power) = (Processor::UNKNOWN, false);
    let limits = |datum: &RequestDatum| {
        datum.item().filter(|item| matches!(item, RequestItem::ExecutionLimits { .. }))
    };
    if dialect == Dialect::Extended
        && let Some(RequestItem::ExecutionLimits { deadline, loop_timeout, processor, low_power }) =
            cursor.next_if(limits)
    {
        let limit = |nanoseconds| (nanoseconds != u64::MAX).then_some(nanoseconds);
        received.options.deadline = limit(deadline).map(|nanoseconds| TimePoint { nanoseconds });
        received.options.loop_timeout = limit(loop_timeout).map(Duration::from_nanos);
        (received.processor, received.low_power) = (processor, low_power);
    }
    let measure = cursor.next("measure timing", |datum| match datum.item()? {
        RequestItem::MeasureTiming(measure) => Some(measure),
        _ => None,
    })?;
    received.options.measure = if measure { MeasureTiming::Yes } else { MeasureTiming::No };
    cursor.end()
}

/// The first element, whose size is known last.
struct Information {
    packet_size: u32,
    inputs: u32,
    outputs: u32,
    pools: u32,
}

impl Information {
    fn datum(&self) -> RequestDatum {
        let &Self { packet_size, inputs, outputs, pools } = self;
        RequestDatum::new(RequestItem::PacketInformation { packet_size, inputs, outputs, pools })
    }
}

/// Inputs and outputs differ in the tags of their elements alone.
trait Side {
    const OPERAND: &'static str;
    const DIMENSION: &'static str;
    fn operand(item: RequestItem) -> Option<(bool, DataLocation, u32)>;
    fn dimension(item: RequestItem) -> Option<u32>;
}

struct Inputs;

impl Side for Inputs {
    const OPERAND: &'static str = "input operand information";
    const DIMENSION: &'static str = "input operand dimension value";

    fn operand(item: RequestItem) -> Option<(bool, DataLocation, u32)> {
        match item {
            RequestItem::InputOperand { has_no_value, location, dimensions } => {
                Some((has_no_value, location, dimensions))
            }
            _ => None,
        }
    }

    fn dimension(item: RequestItem) -> Option<u32> {
        match item {
            RequestItem::InputDimension(extent) => Some(extent),
            _ => None,
        }
    }
}

struct Outputs;

impl Side for Outputs {
    const OPERAND: &'static str = "output operand information";
    const DIMENSION: &'static str = "output operand dimension value";

    fn operand(item: RequestItem) -> Option<(bool, DataLocation, u32)> {
        match item {
            RequestItem::OutputOperand { has_no_value, location, dimensions } => {
                Some((has_no_value, location, dimensions))
            }
            _ => None,
        }
    }

    fn dimension(item: RequestItem) -> Option<u32> {
        match item {
            RequestItem::OutputDimension(extent) => Some(extent),
            _ => None,
        }
    }
}

fn take_arguments<S: Side>(
    cursor: &mut Cursor<'_, RequestDatum>,
    said: u32,
    arguments: &mut Vec<RequestArgument>,
) -> Result<(), PacketError> {
    let said = cursor.bounded(said, S::OPERAND)?;
    make_room(arguments, said, "operands")?;
    arguments.resize_with(said, RequestArgument::default);
    for argument in arguments {
        let (has_no_value, location, dimensions) =
            cursor.next(S::OPERAND, |datum| S::operand(datum.item()?))?;
        argument.has_no_value = has_no_value;
        argument.location = location;
        argument.dimensions.clear();
        let dimensions = cursor.bounded(dimensions, S::DIMENSION)?;
        make_room(&mut argument.dimensions, dimensions, "dimensions")?;
        for _ in 0..dimensions {
            let extent = cursor.next(S::DIMENSION, |datum| S::dimension(datum.item()?))?;
            argument.dimensions.push(extent);
        }
    }
    Ok(())
}

fn parts(argument: &RequestArgument) -> Result<(bool, DataLocation, u32), PacketError> {
    let dimensions = count(argument.dimensions.len(), "dimensions")?;
    Ok((argument.has_no_value, argument.location, dimensions))
}

/// The element that says the limits, if there are any.
fn limits(options: &ExecutionOptions) -> Option<RequestItem> {
    if options.deadline.is_none() && options.loop_timeout.is_none() {
        return None;
    }
    let timeout = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    Some(RequestItem::ExecutionLimits {
        deadline: options.deadline.map_or(u64::MAX, |deadline| deadline.nanoseconds),
        loop_timeout: options.loop_timeout.map_or(u64::MAX, timeout),
        // Both are written when the packet is sent.
        processor: Processor::UNKNOWN,
        low_power: false,
    })
}
