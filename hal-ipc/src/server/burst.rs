//! Bursts: the driver's end is told where the client's is.

use std::sync::Arc;
use std::time::Duration;

use nnburst_fmq::Descriptor;
use nnburst_hal::{
    BurstCallback, BurstOptions, Charge, FileStatus, HalError, Memory, RealTimeProfile, Resource,
    Result, try_collect,
};

use super::objects::{Charges, Object};
use super::session::Session;
use crate::connection::{Connection, Limit};
use crate::wire::{BurstBody, MemoryBody, Question};

/// The time that a client may take to answer where a memory is.
const PATIENCE: Duration = Duration::from_secs(5);

/// The client's end of a burst's control, asked over the connection. The memories that it tells of
/// are charged for as long as the driver keeps them.
struct RemoteCallback {
    connection: Arc<Connection>,
    callback: u64,
}

/// Descriptors of a connection that its bursts leave to calls.
const ROOM_FOR_CALLS: u64 = 128;

impl BurstCallback for RemoteCallback {
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>> {
        // Held while they are asked for, so that slots never take all: calls have room.
        let _room = self.connection.budget().take(Resource::Descriptors, ROOM_FOR_CALLS)?;
        let limit = Limit { within: Some(PATIENCE), ..Limit::default() };
        let question = Question::Memories { callback: self.callback, slots: slots.to_vec() };
        let mut answer = self
            .connection
            .call::<Vec<MemoryBody>>(&question, &[], &[], limit)
            .map_err(|failure| failure.error)?;
        if answer.value.len() != slots.len() {
            let (asked, came) = (slots.len(), answer.value.len());
            return Err(HalError::failure(format!("{came} memories came for {asked} slots")));
        }
        try_collect(answer.value.into_iter().map(|body| answer.fds.memory(body)))
    }
}

impl Session {
    pub(super) fn configure_burst(
        &self,
        connection: &Arc<Connection>,
        model: u64,
        callback: u64,
        queues: Result<([Descriptor; 2], Charges)>,
        options: BurstOptions,
    ) -> Result<BurstBody> {
        let mut burst = self.budget().take_thread()?;
        burst.grow(Resource::Bursts, 1)?;
        if options.real_time != RealTimeProfile::default() {
            burst.grow(Resource::RealTimeBursts, 1)?;
        }
        let ([requests, results], descriptors) = queues?;
        for queue in [&requests, &results] {
            charge_queue(&mut burst, queue)?;
        }
        let mut charges = self.objects.charges(model);
        charges.extend([Arc::new(burst)].into_iter().chain(descriptors));
        let connection = Arc::clone(connection);
        let callback = Arc::new(RemoteCallback { connection, callback });
        let label = self.objects.label(model);
        let model = self.objects.model(model)?;
        let burst = model.configure_execution_burst(callback, requests, results, options)?;
        let terms = burst.terms();
        let object = self.objects.insert_labelled(Object::Burst(burst), label, charges)?;
        Ok(BurstBody { object, terms })
    }
}

/// Most bytes that a burst keeps of what it took out of a queue, whose size the burst bounds.
const MOST_KEPT: u64 = 2 << 20;

/// Charges what it takes to map a queue and to take packets out of it.
fn charge_queue(charge: &mut Charge, queue: &Descriptor) -> Result<()> {
    for file in &queue.fds {
        let bytes = FileStatus::of(file).map_or(0, |file| file.size);
        charge.grow(Resource::Mappings, 1)?;
        charge.grow(Resource::AddressSpace, bytes)?;
        charge.grow(Resource::Memory, bytes.min(MOST_KEPT))?;
    }
    Ok(())
}
