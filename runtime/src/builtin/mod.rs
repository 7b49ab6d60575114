//! Networks that the project makes itself, with weights of a fixed seed: nobody needs a file to
//! try, measure or test a device. Their speed is real, their answers are not.
//!
//! ```
//! let model = nnburst::builtin::model("add1")?;
//! assert_eq!(model.main.input_indexes.len(), 2);
//! # Ok::<(), nnburst::RuntimeError>(())
//! ```

mod mobilenet;
mod seed;
mod small;

use nnburst_hal::Model;

use crate::error::{Result, RuntimeError};

/// A network that can be made.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// The name to ask for it by.
    pub name: &'static str,
    /// A description of it.
    pub what: &'static str,
    make: fn() -> Result<Model>,
}

impl Builtin {
    /// Makes the network; the same one every time.
    ///
    /// # Errors
    /// [`RuntimeError::Memory`] where its weights find no room.
    pub fn model(&self) -> Result<Model> {
        (self.make)()
    }
}

/// Every network that can be made.
pub const ALL: &[Builtin] = &[
    Builtin {
        name: "mobilenet_v2_1.0_224",
        what: "MobileNet v2 1.0 224, float: an image classifier of 301 million multiply-accumulates",
        make: mobilenet::v2_1_0_224,
    },
    Builtin {
        name: "mobilenet_v1_0.25_128",
        what: "MobileNet v1 0.25 128, float: an image classifier of 14 million multiply-accumulates",
        make: mobilenet::v1_0_25_128,
    },
    Builtin {
        name: "mobilenet_v1_0.5_128",
        what: "MobileNet v1 0.5 128, float: 49 million multiply-accumulates, about a millisecond",
        make: mobilenet::v1_0_5_128,
    },
    Builtin { name: "add1", what: "one float addition: what a call costs", make: small::add1 },
    Builtin {
        name: "sine",
        what: "three dense layers of 16 units, float: the smallest network that is one",
        make: small::sine,
    },
    Builtin {
        name: "add_plane_quant",
        what: "one addition of two 128x128 planes of unsigned 8-bit values",
        make: small::add_plane_quant,
    },
];

/// Makes the network of this name.
///
/// # Errors
/// [`RuntimeError::Model`] naming what there is, where there is no such network.
pub fn model(name: &str) -> Result<Model> {
    match ALL.iter().find(|builtin| builtin.name == name) {
        Some(builtin) => builtin.model(),
        None => {
            let known: Vec<_> = ALL.iter().map(|builtin| builtin.name).collect();
            Err(RuntimeError::Model(format!(
                "no built-in network is called {name:?}; there are {}",
                known.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_can_be_made_and_knows_its_shapes() {
        for builtin in ALL {
            let model = builtin.model().unwrap();
            for operand in &model.main.operands {
                assert!(operand.data_size().is_some(), "{}", builtin.name);
            }
        }
    }

    #[test]
    fn the_seeded_mobilenet_v2_has_the_size_of_the_real_one() {
        let model = model("mobilenet_v2_1.0_224").unwrap();
        let megabytes = model.pools[0].size() as f64 / 1e6;
        assert!((13.0..15.0).contains(&megabytes), "{megabytes} MB of weights");
        // 1 + 17 expanding, depthwise and projecting convolutions (the first block doesn't expand),
        // 10 additions, the last convolution, pooling, the classifier and its softmax.
        assert_eq!(model.main.operations.len(), 1 + 3 * 17 - 1 + 10 + 1 + 3);
    }

    #[test]
    fn the_same_weights_every_time() {
        let weights = || {
            let mut bytes = vec![0; 1000];
            model("mobilenet_v1_0.25_128").unwrap().pools[0].read_at(0, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(weights(), weights());
        assert!(weights().iter().any(|&byte| byte != 0));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = model("resnet").unwrap_err().to_string();
        assert!(error.contains("resnet") && error.contains("add1"), "{error}");
    }
}
