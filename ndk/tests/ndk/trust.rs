//! Another user's files and services: a C program that lists devices uses none.

#[path = "../../../runtime/tests/common/two_users.rs"]
mod two_users;

use crate::common;
use two_users::TwoUsers;

#[test]
fn attacker_main() {
    two_users::attacker_main();
}

#[test]
fn a_c_program_uses_nothing_of_another_users() {
    let Some(users) = TwoUsers::new("trust::attacker_main") else { return };
    let Some(program) = common::compile("gcc", "c11", "tests/c/list.c") else { return };
    let library = users.program(&common::library());
    two_users::withstands(&users, || {
        let mut command = users.victim(&program);
        command.env("LD_LIBRARY_PATH", library.parent().unwrap());
        command
    });
}
