//! A frame as bursts send it.

use nnburst_burst::packet::BurstAnswer;
use nnburst_burst::{BurstController, BurstError, BurstFrame, Fallback};
use nnburst_hal::{ExecutionOptions, Request, RequestArgument};

use super::{Frame, Last, MOST_KEPT};
use crate::error::Result;

/// The packets that a frame was sent with, kept to be sent again.
#[derive(Debug, Default)]
pub(super) struct Packets {
    kept: Vec<(Content, BurstFrame)>,
    /// The one that says what the request says; unknown after an exchange.
    current: Option<usize>,
    /// The content of the packet that is in flight.
    in_flight: Option<Content>,
}

/// The contents of a packet, and its burst.
#[derive(Debug)]
struct Content {
    burst: u64,
    inputs: Vec<RequestArgument>,
    outputs: Vec<RequestArgument>,
    /// The version of the frame's pools.
    version: u64,
}

impl Packets {
    /// The request has other arguments from now on.
    pub(super) fn unset(&mut self) {
        self.current = None;
    }

    /// The answer to the current packet, where it has one.
    pub(super) fn answer(&self) -> Option<&BurstAnswer> {
        self.current()?.answer().ok()
    }

    fn current(&self) -> Option<&BurstFrame> {
        self.kept.get(self.current?).map(|(_, frame)| frame)
    }

    /// The packet of this request in this burst, made or changed as far as need be.
    fn find(
        &mut self,
        version: u64,
        request: &Request,
        burst: u64,
        controller: &mut BurstController,
        options: &ExecutionOptions,
    ) -> std::result::Result<&mut BurstFrame, Fallback> {
        let fits = |(content, _): &(Content, BurstFrame)| {
            content.burst == burst
                && content.inputs == request.inputs
                && content.outputs == request.outputs
        };
        let known = self
            .current
            .filter(|&at| self.kept.get(at).is_some_and(|(content, _)| content.burst == burst))
            .or_else(|| self.kept.iter().position(fits));
        let at = match known {
            Some(at) => at,
            None => {
                let frame = controller.frame(request, options)?;
                let (inputs, outputs) = (request.inputs.clone(), request.outputs.clone());
                if self.kept.len() == MOST_KEPT {
                    self.kept.remove(0);
                }
                self.kept.push((Content { burst, inputs, outputs, version }, frame));
                self.kept.len() - 1
            }
        };
        self.current = Some(at);
        // `at` was found or made above.
        let (content, frame) = &mut self.kept[at];
        if content.version != version {
            for (at, pool) in request.pools.iter().enumerate() {
                controller.set_pool(frame, at, pool)?;
            }
            content.version = version;
        }
        Ok(frame)
    }
}

impl Frame {
    /// The packet that stands for the frame in a burst, made at its first time there.
    pub(crate) fn packet(
        &mut self,
        burst: u64,
        controller: &mut BurstController,
        options: &ExecutionOptions,
    ) -> std::result::Result<&mut BurstFrame, Fallback> {
        self.0.last = Last::Nothing;
        self.0.packets.find(self.0.version, &self.0.request, burst, controller, options)
    }

    /// Takes the current packet out of the frame, to be in flight.
    pub(crate) fn take_packet(&mut self) -> Option<BurstFrame> {
        let packets = &mut self.0.packets;
        let at = packets.current.take().filter(|&at| at < packets.kept.len())?;
        let (content, frame) = packets.kept.remove(at);
        packets.in_flight = Some(content);
        Some(frame)
    }

    /// Puts the packet that was in flight back.
    pub(crate) fn put_packet(&mut self, frame: BurstFrame) {
        let packets = &mut self.0.packets;
        if let Some(content) = packets.in_flight.take() {
            // There is room, where it was taken from.
            packets.kept.push((content, frame));
            packets.current = Some(packets.kept.len() - 1);
        }
    }

    /// The answer to the current packet.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn packet_answer(&self) -> std::result::Result<&BurstAnswer, BurstError> {
        self.0.packets.current().ok_or(BurstError::NotExecuted)?.answer()
    }

    /// Takes note that the current packet was answered.
    pub(crate) fn packet_answered(&mut self) -> Result<()> {
        // The burst has read the clock on both ways already; here that would cost as much as a
        // cache line takes.
        let packet = self.0.packets.current();
        self.0.latency = packet.map_or_else(Default::default, BurstFrame::latency);
        self.0.last = Last::Packet;
        self.check_pages()?;
        self.scatter()
    }
}
