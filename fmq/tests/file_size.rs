//! A process that may have no large files: a queue beyond that is refused, and no signal comes.

use std::process::Command;

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nnburst_fmq::{Queue, SetupError};

const LIMITED: &str = "NNBURST_TEST_LIMITED";

/// In a process of its own, whose output goes through a pipe: the limit is the whole process's.
#[test]
fn a_queue_beyond_the_limit_of_file_sizes_is_refused() {
    const NAME: &str = "a_queue_beyond_the_limit_of_file_sizes_is_refused";
    const LIMIT: u64 = 64 << 10;
    if std::env::var_os(LIMITED).is_none() {
        let program = std::env::current_exe().unwrap();
        let limited = Command::new(program).args(["--exact", NAME]).env(LIMITED, "1").output();
        let limited = limited.unwrap();
        assert!(limited.status.success(), "{limited:?}");
        return;
    }
    setrlimit(Resource::RLIMIT_FSIZE, LIMIT, LIMIT).unwrap();
    Queue::<u8>::builder(100).create().unwrap();
    let refused = Queue::<u8>::builder(1 << 20).create().map(drop).unwrap_err();
    let SetupError::System { call: "ftruncate", source: Errno::EFBIG } = refused else {
        panic!("{refused}");
    };
}
