//! Who dies is noticed, and nobody leaves anything behind.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod common;

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use common::{children, command, ended, is_alive, json, signal, succeed, text, until};

/// A bench that runs until something happens to it, and its driver's process.
fn endless(wait: &str) -> (Child, u32) {
    let child = command(&[
        "bench",
        "--builtin",
        "add1",
        "--runs",
        "4000000000",
        "--mode",
        "burst",
        "--wait",
        wait,
    ])
    .spawn()
    .unwrap();
    until("starting the driver", || children(child.id()).len() == 1);
    let driver = children(child.id())[0];
    // In the middle of the burst: the driver's burst thread runs, and has run for a while.
    until("opening the burst", || threads(driver) >= 2);
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_alive(child.id()) && is_alive(driver));
    (child, driver)
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

#[test]
fn a_killed_driver_is_an_error_at_once_however_one_waits() {
    for wait in ["spin", "adaptive", "block"] {
        let (mut child, driver) = endless(wait);
        let killed = Instant::now();
        signal("-9", driver);
        // 3: the device was lost.
        assert_eq!(ended(&mut child), Some(3), "{wait}");
        println!("{wait}: the command ended {:?} after its driver", killed.elapsed());
        let error = text(&child.wait_with_output().unwrap().stderr);
        assert!(error.contains("DEVICE_UNAVAILABLE"), "{wait}: {error}");
    }
}

#[test]
fn a_killed_client_takes_its_driver_along() {
    for wait in ["spin", "block"] {
        let (mut child, driver) = endless(wait);
        signal("-9", child.id());
        assert_eq!(ended(&mut child), None, "killed");
        let took = until("the driver's end", || !is_alive(driver));
        println!("{wait}: the driver was gone after {took:?}");
    }
}

#[test]
fn a_killed_client_leaves_nothing_in_a_service() {
    let dir = tempfile::tempdir().unwrap();
    let services = dir.path().join("services");
    let mut service = command(&["serve", "--driver", "nnapi-sample_all"])
        .env("NNBURST_SERVICE_DIR", &services)
        .spawn()
        .unwrap();
    let mut announced = String::new();
    BufReader::new(service.stdout.as_mut().unwrap()).read_line(&mut announced).unwrap();
    assert!(announced.contains("nnapi-sample_all.sock"), "{announced}");
    let pid = service.id();
    let held = || {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let shared = maps.lines().filter(|line| line.contains("memfd:")).count();
        (threads(pid), fds, shared)
    };
    let client = || {
        command(&[
            "bench",
            "--builtin",
            "add1",
            "--runs",
            "4000000000",
            "--device",
            "nnapi-sample_all",
            "--wait",
            "block",
        ])
        .env("NNBURST_SERVICE_DIR", &services)
        .spawn()
        .unwrap()
    };
    let busy = |before: (usize, usize, usize)| held().0 > before.0 && held().2 > before.2;
    // The first client may leave behind what every later one uses.
    let idle = held();
    let mut first = client();
    until("the first burst", || busy(idle));
    signal("-9", first.id());
    ended(&mut first);
    until("the first farewell", || held().2 == idle.2 && held().0 <= idle.0 + 2);
    std::thread::sleep(Duration::from_secs(1));
    let before = held();
    let is_no_more =
        |now: (usize, usize, usize)| now.0 <= before.0 && now.1 <= before.1 && now.2 <= before.2;

    let mut second = client();
    until("the second burst", || busy(before));
    signal("-9", second.id());
    ended(&mut second);
    let took = until("the second farewell", || is_no_more(held()));
    println!("threads, descriptors and mappings were gone after {took:?}");

    // The service goes on, and takes its socket along when it is asked to end.
    let listed =
        command(&["devices", "--json"]).env("NNBURST_SERVICE_DIR", &services).output().unwrap();
    assert!(text(&listed.stdout).contains(r#""name":"nnapi-sample_all""#), "{listed:?}");
    signal("-TERM", pid);
    assert_eq!(ended(&mut service), Some(0));
    assert_eq!(std::fs::read_dir(&services).unwrap().count(), 0, "the socket is gone");
}

#[test]
fn the_demo_ends_by_itself_and_its_rows_are_complete() {
    let out = succeed(&["demo", "--quick", "--json"]);
    let rows: Vec<_> = out.lines().map(json).collect();
    assert_eq!(rows.len(), 8, "four ways, paced and back to back: {out}");
    for row in rows {
        assert!(row["frames"].as_u64().unwrap() > 0, "{row}");
        assert!(row["latency_us"]["p50"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["overhead_us"]["p50"].is_number(), "{row}");
    }
}

#[test]
fn ctrl_c_ends_the_demo_and_its_driver() {
    let dir = tempfile::tempdir().unwrap();
    let mut child =
        command(&["demo"]).current_dir(dir.path()).env("TMPDIR", dir.path()).spawn().unwrap();
    until("starting the driver", || children(child.id()).len() == 1);
    let driver = children(child.id())[0];
    std::thread::sleep(Duration::from_millis(500));
    // The terminal would send it to both; the driver has to end in either case.
    signal("-INT", child.id());
    ended(&mut child);
    until("the driver's end", || !is_alive(driver));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a file is left");
}

#[test]
fn spans_of_client_and_driver_lie_on_one_clock_in_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.json");
    for mode in ["sync", "burst"] {
        let args = ["bench", "--builtin", "add1", "--runs", "5", "--mode", mode];
        let output = command(&args).env("NNBURST_TRACE", &file).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let spans = std::fs::read_to_string(&file).unwrap();
    let spans = json(&format!("{}]", spans.trim_end().trim_end_matches(',')));
    let spans = spans.as_array().unwrap();
    // Begin and end in microseconds, and the process.
    let named = |name: &str| -> Vec<(f64, f64, u64)> {
        let number = |span: &Value, field: &str| span[field].as_f64().unwrap();
        let named = spans.iter().filter(|span| span["ph"] == "X" && span["name"] == name);
        named
            .map(|span| {
                let start = number(span, "ts");
                (start, start + number(span, "dur"), span["pid"].as_u64().unwrap())
            })
            .collect()
    };
    let within = |inner: &str, outer: &str, another_process: bool| {
        let outers = named(outer);
        let held = named(inner).into_iter().filter(|&(start, _, pid)| {
            outers.iter().any(|&(from, to, of)| {
                // A driver may close its span after its response has reached the client.
                from <= start && start <= to && (of != pid) == another_process
            })
        });
        held.count()
    };
    assert!(within("[NN_LI_PE]ExecuteSynchronously", "[NN_LR_PE]compute", false) >= 5);
    assert!(within("[NN_LD_PE]execute", "[NN_LI_PE]ExecuteSynchronously", true) >= 5);
    assert!(within("[NN_LD_PE]execute", "[NN_LR_PE]burst", true) >= 5);
    assert!(within("[NN_LC_PCO]run", "[NN_LD_PE]execute", false) >= 10);
    assert!(within("[NN_LI_PP]PrepareModel", "[NN_LR_PC]whole", false) >= 1);
    assert_eq!(named("[NN_LD_PP]prepare").len(), 2);
}

#[test]
fn tags_say_who_talks() {
    let talk = |tags: &str| {
        let args = ["bench", "--builtin", "add1", "--runs", "1"];
        text(&command(&args).env("NNBURST_VLOG", tags).output().unwrap().stderr)
    };
    assert_eq!(talk(""), "");
    let said = talk("driver,cpuexe");
    assert!(said.contains("nnburst::driver") && said.contains("nnburst::cpuexe"), "{said}");
    assert!(!said.contains("nnburst::model"), "{said}");
    assert!(talk("all").contains("nnburst::model"));
}

/// A service, and where it listens.
fn serve(services: &std::path::Path, arguments: &[&str]) -> (Child, String) {
    let mut service = command(&[&["serve", "--driver", "nnapi-sample_all"], arguments].concat())
        .env("NNBURST_SERVICE_DIR", services)
        .env("NNBURST_STATE_DIR", services.join("state"))
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(service.stdout.as_mut().unwrap());
    while !said.contains("nnapi-sample_all.sock") {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    (service, said)
}

/// What systemd hears of a service of `Type=notify` with a watchdog, in its order.
#[test]
fn the_service_manager_hears_of_the_start_the_watchdog_and_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let hear = || {
        let mut state = [0; 64];
        let length = manager.recv(&mut state).unwrap();
        String::from_utf8_lossy(&state[..length]).into_owned()
    };
    let mut service = command(&["serve"])
        .env("NNBURST_SERVICE_DIR", dir.path().join("services"))
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "20000")
        .spawn()
        .unwrap();
    let mut heard = Vec::new();
    while heard.iter().filter(|state| *state == "WATCHDOG=1").count() < 3 {
        heard.push(hear());
    }
    assert!(heard[..2].contains(&"READY=1".to_owned()), "{heard:?}");
    assert!(dir.path().join("services/nnburst-cpu.sock").exists(), "ready");
    signal("-TERM", service.id());
    while heard.last().is_some_and(|state| state != "STOPPING=1") {
        heard.push(hear());
    }
    assert_eq!(ended(&mut service), Some(0));
}

/// The kernel's account of the sandbox: a filter of system calls, and no way to new rights.
#[test]
fn drivers_run_in_a_sandbox_unless_told_otherwise() {
    let filters = |arguments: &[&str], variable: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut service =
            command(&[&["serve", "--driver", "nnapi-sample_all"], arguments].concat())
                .env("NNBURST_SERVICE_DIR", dir.path())
                .env("NNBURST_SANDBOX", variable)
                .spawn()
                .unwrap();
        let mut said = String::new();
        BufReader::new(service.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
        let (socket, pid) = (dir.path().join("nnapi-sample_all.sock"), service.id());
        assert!(socket.exists(), "{said}");
        signal("-TERM", pid);
        ended(&mut service);
        assert!(!socket.exists(), "the sandbox lets a driver remove its socket");
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
        };
        (field("Seccomp:"), field("NoNewPrivs:"))
    };
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let already = own.lines().any(|line| line.starts_with("Seccomp:") && line.ends_with('2'));
    let free = (if already { "2" } else { "0" }).to_owned();
    assert_eq!(filters(&[], ""), ("2".to_owned(), "1".to_owned()));
    assert_eq!(filters(&["--no-sandbox"], "").0, free);
    assert_eq!(filters(&[], "0").0, free);
}

#[test]
fn run_without_a_device_takes_the_service_that_takes_all_of_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let services = dir.path().join("services");
    let run = |preferred: &str| {
        let output = command(&["run", "--builtin", "add1", "--json"])
            .env("NNBURST_SERVICE_DIR", &services)
            .env("NNBURST_PREFER_SERVED", preferred)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    assert!(run("").contains("spawn:nnburst-cpu"), "nothing is served");
    let (mut service, _) = serve(&services, &[]);
    assert!(run("").contains("\"nnapi-sample_all\""), "{}", run(""));
    assert!(run("0").contains("spawn:nnburst-cpu"));
    signal("-9", service.id());
    ended(&mut service);
}

/// Figures of equal kernels are equal, and a name that is served already is refused before anything
/// is measured.
#[test]
fn a_service_is_calibrated_once_and_measures_itself_equal() {
    let dir = tempfile::tempdir().unwrap();
    let services = dir.path().join("services");
    let (mut service, said) = serve(&services, &["--calibrate"]);
    let figures: Vec<_> = said.lines().filter(|line| line.contains("reference device's")).collect();
    assert_eq!(figures.len(), 19, "{said}");
    let file = services.join("state").join("nnapi-sample_all.1.figures");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.starts_with("build ") && kept.contains(" threads 1\n"), "{kept}");
    for name in ["TENSOR_FLOAT32", "TENSOR_QUANT8_ASYMM", "RELAXED_FLOAT32", "IF", "WHILE"] {
        assert!(kept.lines().any(|line| line.starts_with(&format!("{name} "))), "{kept}");
    }

    let output = command(&["serve", "--driver", "nnapi-sample_all", "--calibrate"])
        .env("NNBURST_SERVICE_DIR", &services)
        .env("NNBURST_STATE_DIR", dir.path().join("other"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("served already"), "{said}");
    assert!(!dir.path().join("other").exists(), "nothing was measured");
    signal("-9", service.id());
    ended(&mut service);
}
