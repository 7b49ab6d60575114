//! A frame that came.

use dora_node_api::MetadataParameters;

use crate::node::Message;
use crate::stamp::Stamp;

/// A frame that came.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) stamp: Stamp,
    pub(crate) message: Message,
    /// The models that it has another try with, after the deaths of their drivers.
    pub(crate) again: Option<Vec<usize>>,
}

impl Incoming {
    /// The parameters of a message that only has the frame's stamp.
    pub(crate) fn parameters(&self) -> MetadataParameters {
        let mut parameters = MetadataParameters::new();
        self.stamp.write(&mut parameters);
        parameters
    }
}
