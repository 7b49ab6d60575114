//! Settings of a burst.

use std::time::Duration;

use nnburst_hal::BurstOptions;

use crate::channel::MAX_QUEUE_ELEMENTS;

/// Elements of either queue in Android, and here where nothing else is said.
const QUEUE_ELEMENTS: usize = 1024;

/// Elements of either queue at least: 1.5 KiB.
const SHORTEST_QUEUE: usize = 64;

/// Settings of a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// Elements of either queue: the longest packet. Android's have 1024.
    pub queue_elements: usize,
    /// The time that this side polls for an answer before it sleeps: zero sleeps at once,
    /// [`Duration::MAX`] polls on. `None`: as the preference says.
    pub polling_window: Option<Duration>,
    /// Settings that are asked of the driver.
    pub burst: BurstOptions,
}

impl Default for ControllerOptions {
    /// Android's sizes and windows; extended packets if the driver takes them, one request in
    /// flight.
    fn default() -> Self {
        let burst = BurstOptions { extended: true, ..BurstOptions::default() };
        Self { queue_elements: QUEUE_ELEMENTS, polling_window: None, burst }
    }
}

impl ControllerOptions {
    /// Elements of a queue for requests on arguments of these ranks, as short as serves so many in
    /// flight: packets that go round a short ring meet cache lines that are at hand.
    #[must_use]
    pub fn queue_elements_for(ranks: impl IntoIterator<Item = usize>, depth: u32) -> usize {
        // An argument has its extents and at most a pool of its own; information, limits and timing
        // go round them.
        let arguments = ranks.into_iter().map(|rank| rank.saturating_add(2));
        let packet = arguments.fold(3usize, usize::saturating_add);
        let in_flight = usize::try_from(depth.max(1)).unwrap_or(usize::MAX);
        // Twice over, so that a packet is written behind the one that is being read.
        let elements = packet.saturating_mul(in_flight).saturating_mul(2);
        elements.clamp(SHORTEST_QUEUE, MAX_QUEUE_ELEMENTS).next_power_of_two()
    }
}
