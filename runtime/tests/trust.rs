//! Another user's files and services: none is used, whatever the environment says.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "common/two_users.rs"]
mod two_users;

use nnburst::Device;
use two_users::TwoUsers;

const LISTS: &str = "NNBURST_TEST_LISTS";

#[test]
fn attacker_main() {
    two_users::attacker_main();
}

/// What this binary does when it is started as the victim.
#[test]
fn victim_main() {
    if std::env::var_os(LISTS).is_some() {
        assert!(Device::list().len() > 1);
        assert!(!nnburst::devices().is_empty());
    }
}

#[test]
fn a_list_of_devices_uses_nothing_of_another_users() {
    let Some(users) = TwoUsers::new("attacker_main") else { return };
    let program = std::env::current_exe().unwrap();
    two_users::withstands(&users, || {
        let mut command = users.victim(&program);
        command.args(["--exact", "victim_main"]).env(LISTS, "1");
        command
    });
}
