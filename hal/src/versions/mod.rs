//! The differences between the versions of the HAL: which models an older one can express, what a
//! conversion loses, and drivers of one version seen as those of another.
//!
//! ```text
//!   client of 1.3 ──Device──► upgrade() ──► v1_0::Device, v1_1::Device, v1_2::Device (driver)
//!   client of 1.x ──v1_x::Device──► downgrade() ──► Device (driver of 1.3)
//! ```

/// The functions every version's module has.
macro_rules! version_functions {
    ($version:ident) => {
        /// The version that this module is about.
        pub const VERSION: crate::types::Version = crate::types::Version::$version;

        /// As [`crate::validate_model`], for this version.
        ///
        /// # Errors
        /// The first rule that the model breaks, and where.
        pub fn validate_model(
            model: &crate::types::Model,
        ) -> std::result::Result<(), crate::validate::ValidationError> {
            crate::validate::validate_model(model, VERSION)
        }

        /// As [`crate::validate_request`], for this version.
        ///
        /// # Errors
        /// The first rule that the request breaks, and where.
        pub fn validate_request(
            request: &crate::types::Request,
            model: &crate::types::Model,
            allow: crate::validate::AllowUnspecifiedOutput,
        ) -> std::result::Result<(), crate::validate::ValidationError> {
            crate::validate::validate_request(request, model, VERSION, allow)
        }

        /// As [`crate::compliant_with`], for this version.
        pub fn compliant_with(model: &crate::types::Model) -> bool {
            super::compliance::compliant_with(model, VERSION)
        }

        /// As [`crate::convert_to`], for this version.
        pub fn convert_to(
            model: crate::types::Model,
        ) -> super::convert::Converted<crate::types::Model> {
            super::convert::convert_to(model, VERSION)
        }

        /// The operand types of the base interface that this version knows.
        pub fn operand_types() -> impl Iterator<Item = crate::types::OperandType> {
            crate::types::OperandType::BASE.iter().copied().filter(|kind| kind.since() <= VERSION)
        }

        /// The operations of the base interface that this version knows.
        pub fn operation_types() -> impl Iterator<Item = crate::types::OperationType> {
            crate::types::OperationType::BASE.iter().copied().filter(|kind| kind.since() <= VERSION)
        }
    };
}
use version_functions;

mod capabilities;
mod compliance;
mod convert;
mod downgrade;
mod old;
mod slice;
mod trim;
mod upgrade;
pub mod v1_0;
pub mod v1_1;
pub mod v1_2;
pub mod v1_3;

pub use capabilities::CapabilityLoss;
pub use compliance::{compliant_with, noncompliant_operations, request_compliant_with};
pub use convert::{Converted, Loss, convert_request_to, convert_to};
pub use slice::{ModelSlice, slice_for};
pub use trim::trim_default_arguments;

#[cfg(test)]
mod tests;
