//! Services that a C program that lists devices has nothing to do with: another user's, and silent
//! ones.

#[path = "../../../runtime/tests/common/silent.rs"]
mod silent;
#[path = "../../../runtime/tests/common/two_users.rs"]
mod two_users;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::common;
use silent::Silent;
use two_users::TwoUsers;

/// The program, compiled once: it can't be written while it runs.
fn program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| common::compile("gcc", "c11", "tests/c/list.c")).as_ref()
}

#[test]
fn attacker_main() {
    two_users::attacker_main();
}

#[test]
fn a_c_program_uses_nothing_of_another_users() {
    let Some(users) = TwoUsers::new("trust::attacker_main") else { return };
    let Some(program) = program() else { return };
    let library = users.program(&common::library());
    two_users::withstands(&users, || {
        let mut command = users.victim(program);
        command.env("LD_LIBRARY_PATH", library.parent().unwrap());
        command
    });
}

#[test]
fn a_c_program_waits_for_no_silent_service() {
    let Some(program) = program() else { return };
    let silent = Silent::start();
    let mut command = common::command(program);
    command.env("NNBURST_SERVICE_DIR", silent.dir()).env("NNBURST_SERVICE_TIMEOUT", "300");
    let listed = common::run(&mut command);
    assert!(!listed.contains(silent::SILENT), "{listed}");
}
