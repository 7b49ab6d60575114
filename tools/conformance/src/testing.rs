//! The data of tests.

use std::path::{Path, PathBuf};

use nnburst_hal::testing::is_there;

/// A folder of test data shared between checkouts: `$NNBURST_SHARED/name`, else `shared/name`
/// beside the workspace. `None` where there is none, which is reported: a test then has nothing to
/// do.
///
/// # Panics
/// There is none, and `NNBURST_REQUIRE`, a list with commas, names `shared`.
pub fn shared_dir(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("NNBURST_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let folder = root.join(name);
    is_there("shared", folder.is_dir()).then_some(folder)
}
