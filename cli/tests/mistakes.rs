//! Mistakes that users make: each message names the path and what to do.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use common::{command, fail, json, path, text};
use nnburst_mlts::photo::Picture;

#[test]
fn files_that_are_none_are_named_with_a_cure() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("labels.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(at("binary.txt"), [0xff, 0xfe, 0]).unwrap();
    let here = path(dir.path());
    for (arguments, says) in [
        (
            vec!["--labels", &at("labels.txt")],
            vec!["labels.txt: 3 labels, expected", "give the file"],
        ),
        (vec!["--labels", &at("binary.txt")], vec!["binary.txt: no text in UTF-8", "one a line"]),
        (vec!["--labels", "/dev/zero"], vec!["/dev/zero: a device has no end", "save"]),
        (vec!["--image", "/dev/zero"], vec!["/dev/zero: a device has no end", "save"]),
        (vec!["--image", &at("none.jpg")], vec!["none.jpg: ", "its name is right"]),
        (vec!["--image", here], vec![here, "no photo in it", ".png"]),
        (vec!["--input", &format!("0={here}")], vec![here, "name a file in it"]),
        (vec!["--output", &at("labels.txt")], vec!["labels.txt: this is a file", "another folder"]),
        (
            vec!["--output", &at("labels.txt/x")],
            vec!["labels.txt/x: ", "is a file: choose another"],
        ),
    ] {
        let said =
            fail(2, &[&["run", "--builtin", "mobilenet_v2_1.0_224"][..], &arguments].concat());
        assert!(says.iter().all(|part| said.contains(part)), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let said = fail(2, &["check", &at("none.tflite")]);
    assert!(said.contains("none.tflite: ") && said.contains("its name is right"), "{said}");
    let said = fail(2, &["run", "--builtin", "add1", "--output", "/proc/nowhere"]);
    assert!(said.contains("/proc/nowhere: ") && said.contains("another folder"), "{said}");
    let nowhere = at("no/services");
    let output = command(&["dump", "nnburst-cpu"]).env("NNBURST_SERVICE_DIR", &nowhere).output();
    let said = text(&output.unwrap().stderr);
    assert!(said.contains("no/services/nnburst-cpu.sock") && said.contains("serve"), "{said}");
    let said = fail(2, &["bench", "--builtin", "add1", "--runs", "1", "--hgrm", &at("no/x.hgrm")]);
    assert!(said.contains("no/x.hgrm") && said.contains("make"), "{said}");
}

/// As root in a container, or as any other user: what belongs to somebody else is theirs to open.
#[test]
fn services_and_files_of_other_users_are_told_with_who_can_help() {
    if !nnburst_hal::testing::is_there("root", nix::unistd::geteuid().is_root()) {
        return;
    }
    use std::os::unix::process::CommandExt;
    let dir = tempfile::Builder::new().prefix("nnburst").tempdir_in("/tmp").unwrap();
    let set = |name: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.path().join(name), permissions).unwrap();
    };
    let services = dir.path().join("services");
    std::fs::create_dir(&services).unwrap();
    std::fs::write(dir.path().join("private.bin"), [0; 4]).unwrap();
    let program = dir.path().join("nnburst");
    std::fs::copy(env!("CARGO_BIN_EXE_nnburst"), &program).unwrap();
    for (name, mode) in
        [("", 0o755), ("services", 0o755), ("private.bin", 0o600), ("nnburst", 0o755)]
    {
        set(name, mode);
    }
    let _socket =
        std::os::unix::net::UnixListener::bind(services.join("nnburst-cpu.sock")).unwrap();
    set("services/nnburst-cpu.sock", 0o660);
    let other = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.args(arguments).env_clear().env("NNBURST_SERVICE_DIR", &services);
        let output = command.uid(12345).gid(12345).stdin(Stdio::null()).output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        text(&output.stderr)
    };
    let bench = ["bench", "--builtin", "add1", "--runs", "1", "--device", "nnburst-cpu"];
    let said = other(&bench);
    assert!(said.contains("services/nnburst-cpu.sock: Permission denied"), "{said}");
    assert!(said.contains("users of group 0") && said.contains("become one"), "{said}");
    set("services", 0o700);
    let said = other(&bench);
    assert!(said.contains("services") && said.contains("(service-dir)"), "{said}");
    let said = other(&["serve"]);
    assert!(said.contains("services") && said.contains("uid"), "{said}");
    let private = format!("0={}", path(&dir.path().join("private.bin")));
    let said = other(&["run", "--builtin", "add1", "--device", "embedded", "--input", &private]);
    assert!(said.contains("private.bin: Permission denied"), "{said}");
    assert!(said.contains("of uid 0, mode 0600"), "{said}");
    let output = path(&dir.path().join("made")).to_owned();
    let said = other(&["run", "--builtin", "add1", "--device", "embedded", "--output", &output]);
    assert!(said.contains("made: Permission denied"), "{said}");
    assert!(said.contains("this user's to write in"), "{said}");
}

#[test]
fn inputs_and_photos_come_from_standard_input_and_photos_from_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    std::fs::create_dir(&photos).unwrap();
    let picture = Picture { width: 8, height: 8, pixels: [200, 0, 0].repeat(64) };
    let png = picture.png().unwrap();
    for (name, file) in [("b.png", &png[..]), ("a.JPG", &grey_jpeg()), ("c.jpeg", &grey_jpeg())] {
        std::fs::write(photos.join(name), file).unwrap();
    }
    std::fs::write(photos.join("notes.txt"), "no photo").unwrap();
    let network = ["run", "--builtin", "mobilenet_v2_1.0_224", "--device", "embedded"];
    let network = [&network[..], &["--mode", "inproc", "--json", "--top", "2", "--image"]].concat();
    let said = common::succeed(&[&network[..], &[path(&photos)]].concat());
    let reports: Vec<_> = said.lines().map(json).collect();
    let names: Vec<_> = reports.iter().map(|report| report["image"].as_str().unwrap()).collect();
    assert_eq!(names, ["a.JPG", "b.png", "c.jpeg"].map(|name| path(&photos.join(name)).to_owned()));
    assert!(reports.iter().all(|report| report["top"].as_array().unwrap().len() == 2), "{said}");

    // The same photo by itself, from standard input.
    let photo = std::fs::File::open(photos.join("b.png")).unwrap();
    let output = command(&[&network[..], &["-"]].concat()).stdin(photo).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(json(text(&output.stdout).trim_end())["top"], reports[1]["top"]);

    // One that is none is told, and the others are classified.
    std::fs::write(photos.join("d.png"), "no photo").unwrap();
    let output = common::run(&[&network[..], &[path(&photos)]].concat());
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(1), 3));
    let said = text(&output.stderr);
    assert!(said.contains("d.png") && said.contains("1 of 4 photos"), "{said}");

    // Two steps from a pipe.
    let mut child =
        command(&["run", "--builtin", "add1", "--device", "embedded", "--mode", "inproc"])
            .args(["--steps", "2", "--input", "0=-", "--json"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
    let steps = [1f32, 5.0].map(f32::to_le_bytes).concat();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &steps).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(json(text(&output.stdout).trim_end())["outputs"][0]["first"], json("[5.0]"));
}

/// A JPEG file of 8 x 8 grey pixels: one block, of two codes of a bit each.
fn grey_jpeg() -> Vec<u8> {
    let codes: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [
        &[0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0][..],
        &[1; 64],
        &[0xFF, 0xC0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0],
        &[0xFF, 0xC4, 0, 20, 0x00],
        codes,
        &[0xFF, 0xC4, 0, 20, 0x10],
        codes,
        &[0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0, 0x3F, 0xFF, 0xD9],
    ]
    .concat()
}
