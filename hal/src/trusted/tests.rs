use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory of ours below a shared one.
fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn directories_of_ours_are_opened_and_made() {
    let home = home();
    let path = home.path().join("one/two");
    assert!(TrustedDir::open(&path, Owners::own()).unwrap_err().is_absent());
    let made = TrustedDir::create(&path, Owners::own()).unwrap();
    assert_eq!((made.path(), made.mode()), (path.as_path(), 0o700));
    assert_eq!(made.owner(), nix::unistd::geteuid().as_raw());
    std::fs::write(path.join("file"), "text").unwrap();
    assert_eq!(made.names().unwrap(), ["file"]);
    assert_eq!(read_trusted(&path.join("../two/./file"), Owners::own()).unwrap(), "text");
}

#[test]
fn what_others_may_write_is_refused_on_every_place_of_the_way() {
    let home = home();
    let (outer, inner) = (home.path().join("outer"), home.path().join("outer/inner"));
    let file = inner.join("file");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(&file, "text").unwrap();
    chmod(&file, 0o644);
    for (path, good) in [(&outer, 0o755), (&inner, 0o755), (&file, 0o644)] {
        read_trusted(&file, Owners::own()).unwrap();
        for bits in [0o020, 0o002, 0o1002] {
            chmod(path, good | bits);
            let refused = read_trusted(&file, Owners::own());
            // A sticky directory is passed through if it is root's, as we may be.
            if bits != 0o1002 || path == &file || home.path().metadata().unwrap().uid() != 0 {
                let refused = refused.unwrap_err();
                assert!(matches!(refused, TrustError::Writable { .. }), "{bits:o}: {refused}");
                assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
            }
        }
        chmod(path, good);
    }
    chmod(&inner, 0o1777);
    let refused = TrustedDir::open(&inner, Owners::own()).unwrap_err();
    assert!(matches!(refused, TrustError::Writable { .. }), "the last one is never shared");
}

#[test]
fn links_below_shared_directories_are_refused() {
    let home = home();
    let (real, link) = (home.path().join("real"), home.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::fs::write(real.join("file"), "text").unwrap();
    symlink(&real, &link).unwrap();
    symlink(real.join("file"), real.join("alias")).unwrap();
    for refused in [
        TrustedDir::open(&link, Owners::own()).map(drop),
        TrustedDir::create(&link.join("new"), Owners::own()).map(drop),
        read_trusted(&link.join("file"), Owners::own()).map(drop),
        read_trusted(&real.join("alias"), Owners::own()).map(drop),
        append_trusted(&real.join("alias"), Owners::own()).map(drop),
    ] {
        assert!(matches!(refused, Err(TrustError::Link { .. })), "{refused:?}");
    }
}

#[test]
fn links_of_roots_in_roots_directories_are_followed() {
    // Of those that are on most systems.
    for link in ["/bin", "/var/run", "/lib", "/dev/fd"] {
        let Ok(target) = std::fs::read_link(link) else { continue };
        if target.starts_with("/proc") {
            continue;
        }
        let real = std::fs::canonicalize(link).unwrap();
        let opened = TrustedDir::open(Path::new(link), Owners::ROOT).unwrap();
        assert_eq!(opened.path(), real);
    }
    let refused = read_trusted(Path::new("/proc/self/exe/nothing"), Owners::ROOT).unwrap_err();
    assert!(!refused.is_absent(), "{refused}");
}

#[test]
fn hard_links_and_other_kinds_are_refused() {
    let home = home();
    let file = home.path().join("file");
    append_trusted(&file, Owners::own()).unwrap();
    std::fs::hard_link(&file, home.path().join("again")).unwrap();
    let refused = append_trusted(&file, Owners::own()).unwrap_err();
    assert!(matches!(refused, TrustError::Links { links: 2, .. }), "{refused}");
    let fifo = home.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    // Neither waits for a writer.
    let refused = [read_trusted(&fifo, Owners::own()).map(drop), {
        let dir = TrustedDir::open(home.path(), Owners::own()).unwrap();
        dir.file(OsStr::new("fifo"), OFlag::O_RDONLY).map(drop)
    }];
    for refused in refused {
        assert!(matches!(refused, Err(TrustError::Kind { .. })), "{refused:?}");
    }
    let dir = TrustedDir::open(home.path(), Owners::own()).unwrap();
    assert!(matches!(dir.socket(OsStr::new("again")), Err(TrustError::Kind { .. })));
    let refused = trusted_program(Path::new("sh"), Owners::own()).unwrap_err();
    assert!(refused.to_string().contains("absolute"), "{refused}");
}

#[test]
fn shared_directories_hold_files_of_ours_that_nobody_else_may_write() {
    let file = std::env::temp_dir().join(format!("nnburst-trusted-{}", std::process::id()));
    append_trusted(&file, Owners::own()).unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    chmod(&file, 0o666);
    let refused = append_trusted(&file, Owners::own()).unwrap_err();
    assert!(matches!(refused, TrustError::Writable { .. }), "{refused}");
    std::fs::remove_file(&file).unwrap();
}

/// Only root can give files away.
#[test]
#[ignore = "only root can give files away"]
fn files_of_other_users_are_refused_and_named() {
    let home = home();
    let file = home.path().join("dir/file");
    std::fs::create_dir(home.path().join("dir")).unwrap();
    std::fs::write(&file, "text").unwrap();
    chmod(&file, 0o644);
    for path in [home.path().join("dir"), file.clone()] {
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let refused = read_trusted(&file, Owners::own()).unwrap_err().to_string();
        assert!(refused.contains("owned by uid 12345, expected uid 0"), "{refused}");
        read_trusted(&file, Owners::own().and(Some(12345))).unwrap();
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
}
