//! Bursts: the driver's end is told where the client's is.

use std::sync::Arc;

use nnburst_fmq::Descriptor;
use nnburst_hal::{BurstCallback, BurstOptions, HalError, Memory, Result};

use super::objects::Object;
use super::session::Session;
use crate::connection::Connection;
use crate::wire::{BurstBody, MemoryBody, Question};

/// The client's end of a burst's control, asked over the connection.
struct RemoteCallback {
    connection: Arc<Connection>,
    callback: u64,
}

impl BurstCallback for RemoteCallback {
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>> {
        let question = Question::Memories { callback: self.callback, slots: slots.to_vec() };
        let mut answer = self
            .connection
            .call::<Vec<MemoryBody>>(&question, &[], &[])
            .map_err(|failure| failure.error)?;
        if answer.value.len() != slots.len() {
            let (asked, came) = (slots.len(), answer.value.len());
            return Err(HalError::failure(format!("{came} memories came for {asked} slots")));
        }
        answer.value.into_iter().map(|body| answer.fds.memory(body)).collect()
    }
}

impl Session {
    pub(super) fn configure_burst(
        &self,
        connection: &Arc<Connection>,
        model: u64,
        callback: u64,
        queues: Result<[Descriptor; 2]>,
        options: BurstOptions,
    ) -> Result<BurstBody> {
        let charge = self.allowances.bursts.take(1)?;
        let [requests, results] = queues?;
        let callback = Arc::new(RemoteCallback { connection: Arc::clone(connection), callback });
        let label = self.objects.label(model);
        let model = self.objects.model(model)?;
        let burst = model.configure_execution_burst(callback, requests, results, options)?;
        let terms = burst.terms();
        let object = self.objects.insert_labelled(Object::Burst(burst), label, vec![charge])?;
        Ok(BurstBody { object, terms })
    }
}
