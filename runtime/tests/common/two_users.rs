//! Two users of one machine: whoever runs programs, and an attacker who puts files in their way.
//!
//! Needs root, which lends both their uids. Programs are copied to where both reach them.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const VICTIM: u32 = 12345;
pub const ATTACKER: u32 = 65534;

/// No test takes this long; who does hangs.
const GUARD: Duration = Duration::from_secs(60);

/// The socket that an attacker's process of this binary serves, and the file of what it received.
const SOCKET: &str = "NNBURST_TEST_PLANTED_SOCKET";
const RECEIVED: &str = "NNBURST_TEST_RECEIVED";

/// What ends the attacker's process.
const DONE: &[u8] = b"done";

/// Directories of two users.
pub struct TwoUsers {
    base: tempfile::TempDir,
    /// The test that calls [`attacker_main`], by its whole name.
    attacker_main: &'static str,
}

impl TwoUsers {
    /// `None` where we aren't root, unless `NNBURST_REQUIRE` names `root`.
    pub fn new(attacker_main: &'static str) -> Option<Self> {
        let base = tempfile::tempdir().unwrap();
        if chown(base.path(), Some(ATTACKER), None).is_err() {
            nnburst_hal::testing::is_there("root", false);
            return None;
        }
        chown(base.path(), Some(0), None).unwrap();
        chmod(base.path(), 0o755);
        let users = Self { base, attacker_main };
        directory(&users.tmp(), 0, 0o1777);
        directory(&users.home(), VICTIM, 0o700);
        let program = std::env::current_exe().unwrap();
        copy_program(&program, &users.base.path().join("attacker"));
        Some(users)
    }

    /// A directory like /tmp.
    pub fn tmp(&self) -> PathBuf {
        self.base.path().join("tmp")
    }

    /// The victim's own, mode 0700.
    pub fn home(&self) -> PathBuf {
        self.base.path().join("home")
    }

    /// A copy of a program that both users can run.
    pub fn program(&self, program: &Path) -> PathBuf {
        let copy = self.base.path().join(program.file_name().unwrap());
        if !copy.exists() {
            copy_program(program, &copy);
        }
        copy
    }

    /// A command that the victim runs, with hardly any environment.
    pub fn victim(&self, program: &Path) -> Command {
        let mut command = Command::new(self.program(program));
        command.uid(VICTIM).gid(VICTIM).env_clear().current_dir("/");
        command.env("HOME", self.home()).env("TMPDIR", self.tmp());
        command
    }

    fn attacker_serves(&self, socket: &Path) -> Planted {
        let received = self.base.path().join("received");
        let _ = std::fs::remove_file(&received);
        std::fs::write(&received, "").unwrap();
        chown(&received, Some(ATTACKER), None).unwrap();
        let mut command = Command::new(self.base.path().join("attacker"));
        command.uid(ATTACKER).gid(ATTACKER).args(["--exact", self.attacker_main, "--nocapture"]);
        command.env(SOCKET, socket).env(RECEIVED, &received);
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut planted = Planted { child, received };
        let start = Instant::now();
        while !socket.exists() {
            assert!(start.elapsed() < GUARD, "the attacker doesn't serve");
            assert!(planted.child.try_wait().unwrap().is_none(), "the attacker ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        planted
    }
}

/// Copies a program in a process of its own: a descriptor of ours that writes it would be inherited
/// by what other tests start meanwhile, and the copy be busy (`ETXTBSY`) until that is executed.
fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// A service of the attacker's.
struct Planted {
    child: Child,
    received: PathBuf,
}

impl Planted {
    /// The bytes that came by each connection.
    fn received(mut self, socket: &Path) -> Vec<usize> {
        UnixStream::connect(socket).unwrap().write_all(DONE).unwrap();
        assert!(self.child.wait().unwrap().success());
        let text = std::fs::read_to_string(&self.received).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a test binary does when it is started as the attacker; nothing otherwise.
pub fn attacker_main() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let received = std::env::var_os(RECEIVED).unwrap();
    let passing = Path::new(&socket).with_extension("new");
    let listener = UnixListener::bind(&passing).unwrap();
    chmod(&passing, 0o777);
    std::fs::rename(&passing, &socket).unwrap();
    let mut lines = String::new();
    for stream in listener.incoming() {
        let mut bytes = Vec::new();
        // Who was hung up on has sent nothing more.
        let _ = stream.unwrap().read_to_end(&mut bytes);
        if bytes == DONE {
            break;
        }
        lines.push_str(&format!("{}\n", bytes.len()));
    }
    std::fs::write(received, lines).unwrap();
}

pub fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub fn directory(path: &Path, owner: u32, mode: u32) {
    std::fs::create_dir_all(path).unwrap();
    chown(path, Some(owner), Some(owner)).unwrap();
    chmod(path, mode);
}

fn file(path: &Path, text: &str, owner: u32, mode: u32) {
    std::fs::write(path, text).unwrap();
    chown(path, Some(owner), Some(owner)).unwrap();
    chmod(path, mode);
}

/// An attack: what it is called, where the attacker's socket is, and what the victim's environment
/// says.
struct Attack {
    what: &'static str,
    /// Of services: the attacker's socket `planted.sock` is put there.
    services: PathBuf,
    variables: Vec<(&'static str, PathBuf)>,
    /// What else is done once the socket is there.
    then: fn(&Path),
}

/// Directories below `/tmp`, the home and others, with everything of the attacker's in them that
/// could be run or connected to.
fn attacks(users: &TwoUsers) -> Vec<Attack> {
    let (tmp, home) = (users.tmp(), users.home());
    let services = |path: &str| tmp.join(path);
    let attack =
        |what, services: PathBuf| Attack { what, services, variables: Vec::new(), then: |_| {} };
    let explicit = |what, path: PathBuf| Attack {
        variables: vec![("NNBURST_SERVICE_DIR", path.clone())],
        ..attack(what, path)
    };
    // Right in all but the socket.
    let mine = || {
        let mine = home.join("services");
        directory(&mine, VICTIM, 0o700);
        mine
    };

    directory(&services(&format!("nnburst-{VICTIM}")), ATTACKER, 0o755);
    directory(&services("run/nnburst"), ATTACKER, 0o755);
    chown(services("run"), Some(ATTACKER), None).unwrap();
    directory(&services("first"), ATTACKER, 0o755);
    directory(&services("open"), VICTIM, 0o777);
    directory(&services("way/services"), VICTIM, 0o700);
    chmod(&services("way"), 0o777);
    directory(&services("real"), VICTIM, 0o700);
    symlink(services("real"), services("link")).unwrap();
    std::os::unix::fs::lchown(services("link"), Some(ATTACKER), None).unwrap();
    directory(&services("settings"), ATTACKER, 0o755);
    let settings = format!(
        "service-dir = {0}\nservice-user = {ATTACKER}\ntrace = {0}/trace\n",
        services("settings").display()
    );
    file(&tmp.join("nnburst.conf"), &settings, ATTACKER, 0o644);

    vec![
        attack("the directory of the uid in /tmp", services(&format!("nnburst-{VICTIM}"))),
        Attack {
            variables: vec![("XDG_RUNTIME_DIR", services("run"))],
            ..attack("a runtime directory of the attacker's", services("run/nnburst"))
        },
        explicit("a directory that the attacker made first", services("first")),
        explicit("a directory that everybody may write", services("open")),
        explicit("a directory on the way that everybody may write", services("way/services")),
        explicit("a symbolic link", services("link")),
        Attack {
            variables: vec![("NNBURST_CONFIG", tmp.join("nnburst.conf"))],
            ..attack("a file of settings of the attacker's", services("settings"))
        },
        explicit("a socket of the attacker's in a right directory", mine()),
        Attack {
            then: |socket| chown(socket, Some(VICTIM), None).unwrap(),
            ..explicit("a server of the attacker's behind a right socket", mine())
        },
    ]
}

/// Files that would run a command as the victim.
fn plant_commands(users: &TwoUsers) -> PathBuf {
    let (tmp, home) = (users.tmp(), users.home());
    let executed = tmp.join("executed");
    let touch = |name: &str| format!("exec = /usr/bin/touch {}-{name}\n", executed.display());
    // Beside each socket that is planted.
    for dir in ["first", "run/nnburst", "open", "settings", "real", &format!("nnburst-{VICTIM}")] {
        file(&tmp.join(dir).join("beside.service"), &touch("beside"), ATTACKER, 0o644);
    }
    let configured = home.join(".config/nnburst/services");
    for dir in [".config", ".config/nnburst", ".config/nnburst/services"] {
        directory(&home.join(dir), VICTIM, 0o755);
    }
    file(&configured.join("given.service"), &touch("given"), ATTACKER, 0o644);
    file(&configured.join("open.service"), &touch("open"), VICTIM, 0o646);
    file(&tmp.join("linked"), &touch("linked"), ATTACKER, 0o644);
    std::fs::hard_link(tmp.join("linked"), configured.join("linked.service")).unwrap();
    file(&tmp.join("twice"), &touch("twice"), VICTIM, 0o644);
    std::fs::hard_link(tmp.join("twice"), configured.join("twice.service")).unwrap();
    symlink(tmp.join("linked"), configured.join("symbolic.service")).unwrap();
    file(&tmp.join("tool"), "#!/bin/sh\n/usr/bin/touch \"$1\"\n", ATTACKER, 0o755);
    let tool = format!("exec = {} {}-tool\n", tmp.join("tool").display(), executed.display());
    file(&configured.join("tool.service"), &tool, VICTIM, 0o644);
    file(&configured.join("path.service"), "exec = touch whatever", VICTIM, 0o644);
    // The control: what is the victim's own is executed.
    file(&configured.join("own.service"), &touch("own"), VICTIM, 0o644);
    executed
}

/// Runs the victim's command against every attack. Nothing may be executed, nothing sent, and the
/// command ends well.
pub fn withstands(users: &TwoUsers, command: impl Fn() -> Command) {
    let attacks = attacks(users);
    let executed = plant_commands(users);
    for Attack { what, services, variables, then } in attacks {
        let real = std::fs::canonicalize(&services).unwrap();
        // Bound where the attacker may, then moved by whoever may.
        let bound = users.tmp().join("bound.sock");
        let planted = users.attacker_serves(&bound);
        let socket = real.join("planted.sock");
        std::fs::rename(&bound, &socket).unwrap();
        then(&socket);
        let output = run(command().envs(variables));
        let received = planted.received(&socket);
        std::fs::remove_file(&socket).unwrap();
        assert!(received.iter().all(|&bytes| bytes == 0), "{what}: {received:?}");
        assert!(output.status.success(), "{what}: {output:?}");
        assert!(!services.join("trace").exists(), "{what}");
        let names = std::fs::read_dir(users.tmp()).unwrap().map(|entry| entry.unwrap().path());
        let run: Vec<_> = names
            .filter(|path| path.to_string_lossy().starts_with(&*executed.to_string_lossy()))
            .collect();
        let own = PathBuf::from(format!("{}-own", executed.display()));
        assert!(run.iter().all(|path| *path == own), "{what}: {run:?}");
    }
    let own = PathBuf::from(format!("{}-own", executed.display()));
    assert!(own.exists(), "what is the victim's own is executed");

    // The control: whom the victim names gets what is sent.
    let bound = users.tmp().join("bound.sock");
    let planted = users.attacker_serves(&bound);
    let socket = users.tmp().join("first/planted.sock");
    std::fs::rename(&bound, &socket).unwrap();
    let named = [
        ("NNBURST_SERVICE_DIR", socket.parent().unwrap().as_os_str()),
        ("NNBURST_SERVICE_USER", "65534".as_ref()),
        ("NNBURST_SERVICE_TIMEOUT", "100".as_ref()),
    ];
    run(command().envs(named));
    let received = planted.received(&socket);
    assert!(received.iter().any(|&bytes| bytes > 0), "the attacker records what it gets");
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}
