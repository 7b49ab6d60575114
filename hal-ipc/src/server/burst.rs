//! Bursts: the driver's end is told where the client's is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nnburst_fmq::Descriptor;
use nnburst_hal::{
    BurstCallback, BurstContext, BurstFigures, BurstOptions, BurstTerms, HalError, Memory, Result,
};

use super::objects::Object;
use super::session::Session;
use crate::connection::Connection;
use crate::limits::Charge;
use crate::wire::{BurstBody, MemoryBody, Question};

/// The client's end of a burst's control, asked over the connection.
struct RemoteCallback {
    connection: Arc<Connection>,
    callback: u64,
    /// For the memories that the driver was told of, by slot: it may keep each until the slot is freed.
    told: Mutex<HashMap<i32, Charge>>,
}

impl RemoteCallback {
    fn told(&self) -> MutexGuard<'_, HashMap<i32, Charge>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BurstCallback for RemoteCallback {
    fn memories(&self, slots: &[i32]) -> Result<Vec<Memory>> {
        let charge = |&slot: &i32| Ok((slot, self.connection.descriptors().take(1)?));
        let charges: Vec<_> = slots.iter().map(charge).collect::<Result<_>>()?;
        let question = Question::Memories { callback: self.callback, slots: slots.to_vec() };
        let mut answer = self
            .connection
            .call::<Vec<MemoryBody>>(&question, &[], &[])
            .map_err(|failure| failure.error)?;
        if answer.value.len() != slots.len() {
            let (asked, came) = (slots.len(), answer.value.len());
            return Err(HalError::failure(format!("{came} memories came for {asked} slots")));
        }
        let memories = answer.value.into_iter().map(|body| answer.fds.memory(body)).collect();
        self.told().extend(charges);
        memories
    }
}

/// The driver's burst, with what its slots take.
struct Metered {
    burst: Arc<dyn BurstContext>,
    callback: Arc<RemoteCallback>,
}

impl BurstContext for Metered {
    fn free_memory(&self, slot: i32) {
        self.burst.free_memory(slot);
        self.callback.told().remove(&slot);
    }

    fn terms(&self) -> BurstTerms {
        self.burst.terms()
    }

    fn figures(&self) -> Option<BurstFigures> {
        self.burst.figures()
    }
}

impl Session {
    pub(super) fn configure_burst(
        &self,
        connection: &Arc<Connection>,
        model: u64,
        callback: u64,
        queues: Result<([Descriptor; 2], Option<Charge>)>,
        options: BurstOptions,
    ) -> Result<BurstBody> {
        let burst = self.allowances.bursts.take(1)?;
        let ([requests, results], descriptors) = queues?;
        let mut charges = self.objects.charges(model);
        charges.extend([burst].into_iter().chain(descriptors));
        let (connection, told) = (Arc::clone(connection), Mutex::default());
        let callback = Arc::new(RemoteCallback { connection, callback, told });
        let label = self.objects.label(model);
        let model = self.objects.model(model)?;
        let burst = model.configure_execution_burst(
            Arc::clone(&callback) as _,
            requests,
            results,
            options,
        )?;
        let terms = burst.terms();
        let burst = Arc::new(Metered { burst, callback });
        let object = self.objects.insert_labelled(Object::Burst(burst), label, charges)?;
        Ok(BurstBody { object, terms })
    }
}
