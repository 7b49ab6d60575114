//! Callbacks that a driver is given; they tell the client, once, also if the driver forgets.

use std::sync::{Arc, Mutex, PoisonError};

use nnburst_hal::{
    ExecutionCallback, ExecutionResult, HalError, PreparedModel, PreparedModelCallback, Result,
};

use super::objects::{Charges, Label, Object};
use super::session::Session;
use crate::connection::Connection;
use crate::wire::CallbackEvent;

/// One callback of the client and what its task takes; empty once told.
pub(super) struct Notifier {
    session: Arc<Session>,
    connection: Arc<Connection>,
    callback: u64,
    charges: Mutex<Option<Charges>>,
    /// The charges of the task itself: given back with the driver's hold of the callback.
    _task: Charges,
}

impl Notifier {
    pub(super) fn new(
        session: &Arc<Session>,
        connection: &Arc<Connection>,
        callback: u64,
        charges: Charges,
        task: Charges,
    ) -> Self {
        Self {
            session: Arc::clone(session),
            connection: Arc::clone(connection),
            callback,
            charges: Mutex::new(Some(charges)),
            _task: task,
        }
    }

    fn take(&self) -> Option<Charges> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn send(&self, event: &CallbackEvent) {
        if let Err(error) = self.connection.note(event)
            && self.connection.lost().is_none()
        {
            tracing::warn!(%error, "a client was not told of an end");
        }
    }
}

fn forgotten() -> HalError {
    HalError::failure("the driver gave the task up without a word")
}

/// The callback of a preparation, and what is prepared, for people.
pub(super) struct PreparedNotifier(pub(super) Notifier, pub(super) String);

impl PreparedNotifier {
    fn tell(&self, result: Result<Arc<dyn PreparedModel>>) {
        let Some(charges) = self.0.take() else { return };
        let objects = &self.0.session.objects;
        let result = result.and_then(|model| {
            let label = Label { model: self.1.clone(), priority: None };
            objects.insert_labelled(Object::Model(model), label, charges)
        });
        self.0.session.note(result.as_ref().err());
        self.0.send(&CallbackEvent::Prepared { callback: self.0.callback, result });
    }
}

impl PreparedModelCallback for PreparedNotifier {
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>) {
        self.tell(result);
    }
}

impl Drop for PreparedNotifier {
    fn drop(&mut self) {
        self.tell(Err(forgotten()));
    }
}

pub(super) struct ExecutedNotifier(pub(super) Notifier);

impl ExecutedNotifier {
    fn tell(&self, result: ExecutionResult) {
        let Some(charges) = self.0.take() else { return };
        drop(charges);
        self.0.session.note(result.as_ref().err().map(|failure| &failure.error));
        self.0.send(&CallbackEvent::Executed { callback: self.0.callback, result });
    }
}

impl ExecutionCallback for ExecutedNotifier {
    fn notify(&self, result: ExecutionResult) {
        self.tell(result);
    }
}

impl Drop for ExecutedNotifier {
    fn drop(&mut self) {
        self.tell(Err(forgotten().into()));
    }
}
