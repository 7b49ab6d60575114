//! Another user's files and services: no command uses them, and says whose they are.
#![expect(clippy::unwrap_used, reason = "a test")]

mod common;
#[path = "../../runtime/tests/common/two_users.rs"]
mod two_users;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use common::{json, text};
use two_users::{ATTACKER, TwoUsers, VICTIM, chmod, directory};

const NNBURST: &str = env!("CARGO_BIN_EXE_nnburst");

#[test]
fn attacker_main() {
    two_users::attacker_main();
}

#[test]
fn devices_uses_nothing_of_another_users() {
    let Some(users) = TwoUsers::new("attacker_main") else { return };
    two_users::withstands(&users, || {
        let mut command = users.victim(Path::new(NNBURST));
        command.arg("devices");
        command
    });
}

/// Messages name the path and what is wrong with it.
#[test]
fn what_is_refused_is_said() {
    let Some(users) = TwoUsers::new("attacker_main") else { return };
    let said = |args: &[&str], variables: &[(&str, &Path)]| {
        let mut command = users.victim(Path::new(NNBURST));
        let output = command.args(args).envs(variables.iter().copied()).output().unwrap();
        text(&output.stderr) + &text(&output.stdout)
    };
    let theirs = users.tmp().join("theirs");
    directory(&theirs, ATTACKER, 0o755);
    let closed = users.tmp().join("closed");
    directory(&closed.join("services"), 0, 0o755);
    chmod(&closed, 0o700);
    let open = users.tmp().join("open");
    directory(&open, VICTIM, 0o775);
    for (dir, why) in [
        (&theirs, format!("owned by uid {ATTACKER}, expected uid 0 or {VICTIM}")),
        (&open, "mode 0775 lets others write".to_owned()),
        (&closed.join("services"), "Permission denied".to_owned()),
    ] {
        for args in [
            &["devices"][..],
            &["dump"],
            &["doctor", "--json"],
            &["serve", "--driver", "nnapi-sample_minimal"],
            &["bench", "--builtin", "add1", "--device", "nnapi-sample_minimal"],
        ] {
            let said = said(args, &[("NNBURST_SERVICE_DIR", dir)]);
            assert!(said.contains(&why), "{args:?}: {why}: {said}");
            assert!(said.contains(dir.to_str().unwrap()), "{args:?}: {said}");
        }
    }
    // Nor is there a place for sockets without a home.
    let said = said(&["serve", "--driver", "nnapi-sample_minimal"], &[("HOME", Path::new(""))]);
    assert!(said.contains("no directory for services"), "{said}");
}

/// Files that other users can write set nothing, and what they point to is not written to.
#[test]
fn settings_figures_and_traces_of_another_users_are_not_used() {
    let Some(users) = TwoUsers::new("attacker_main") else { return };
    let conf = users.tmp().join("conf");
    std::fs::write(&conf, "isa = scalar\n").unwrap();
    let doctor = |conf: &Path| {
        let mut command = users.victim(Path::new(NNBURST));
        let output = command.args(["doctor", "--json"]).env("NNBURST_CONFIG", conf).output();
        text(&output.unwrap().stdout)
    };
    chown(&conf, Some(VICTIM), None).unwrap();
    assert!(doctor(&conf).contains("Scalar is used"), "one's own file counts");
    chown(&conf, Some(ATTACKER), None).unwrap();
    let refused = doctor(&conf);
    assert!(!refused.contains("Scalar is used"), "{refused}");
    assert!(refused.contains(&format!("owned by uid {ATTACKER}")), "{refused}");
    for line in refused.lines() {
        json(line);
    }

    // A file of the victim's, to which the attacker gives the name that spans are written to.
    let precious = users.home().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    chown(&precious, Some(VICTIM), None).unwrap();
    let (hard, symbolic) = (users.tmp().join("hard"), users.tmp().join("symbolic"));
    std::fs::hard_link(&precious, &hard).unwrap();
    std::os::unix::fs::symlink(&precious, &symbolic).unwrap();
    std::os::unix::fs::lchown(&symbolic, Some(ATTACKER), None).unwrap();
    // Of links in shared directories the kernel may say so itself, in its words.
    for (trace, why) in [(&hard, "hard links"), (&symbolic, "NNBURST_TRACE")] {
        let mut command = users.victim(Path::new(NNBURST));
        let output = command.arg("devices").env("NNBURST_TRACE", trace).output().unwrap();
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }
}

/// A program with more rights than whoever starts it takes no one's word for where anything is.
#[test]
fn a_set_uid_program_ignores_the_environment() {
    let Some(users) = TwoUsers::new("attacker_main") else { return };
    let program = users.program(Path::new(NNBURST));
    chown(&program, Some(VICTIM), None).unwrap();
    let doctor = |mode: u32| {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = users.victim(&program);
        std::os::unix::process::CommandExt::uid(&mut command, ATTACKER);
        let output = command.args(["doctor", "--json"]).env("NNBURST_ISA", "scalar").output();
        text(&output.unwrap().stdout)
    };
    assert!(doctor(0o755).contains("Scalar is used"));
    let found = doctor(0o4755);
    if found.contains("Scalar is used") {
        // Where set-uid programs are not honoured there is nothing to be seen.
        assert!(is_nosuid(&program), "{found}");
    }
}

fn is_nosuid(path: &Path) -> bool {
    let flags = nix::sys::statvfs::statvfs(path).unwrap().flags();
    flags.contains(nix::sys::statvfs::FsFlags::ST_NOSUID)
}
