//! Callbacks that send on what they are told.

use std::sync::{Arc, mpsc};

use crate::error::Result;
use crate::traits::{ExecutionCallback, PreparedModel, PreparedModelCallback};
use crate::types::ExecutionResult;

/// A callback that sends on every result; one whose receiver is gone drops it.
#[derive(Debug)]
pub struct Tell<T>(mpsc::Sender<T>);

/// A callback, and what it was told.
pub fn tell<T>() -> (Arc<Tell<T>>, mpsc::Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Arc::new(Tell(sender)), receiver)
}

impl PreparedModelCallback for Tell<Result<Arc<dyn PreparedModel>>> {
    fn notify(&self, result: Result<Arc<dyn PreparedModel>>) {
        let _ = self.0.send(result);
    }
}

impl ExecutionCallback for Tell<ExecutionResult> {
    fn notify(&self, result: ExecutionResult) {
        let _ = self.0.send(result);
    }
}
