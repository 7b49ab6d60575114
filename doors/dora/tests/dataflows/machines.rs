//! Two machines, which are network namespaces with a cable between them.

use std::process::Command;
use std::time::Duration;

use dora_node_api::serde_json::Value;

use crate::flow::{Folder, Running, dora};

/// The time in which the coordinator refuses what it can't start.
const START: Duration = Duration::from_secs(3);

/// Two namespaces, `10.9.N.1` and `10.9.N.2`, gone at the end of the test.
struct Machines {
    names: [String; 2],
    cables: [String; 2],
    net: u32,
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Machines {
    fn new(net: u32) -> Self {
        let process = std::process::id();
        let names = ["a", "b"].map(|side| format!("nnb{process}{net}{side}"));
        let cables = ["a", "b"].map(|side| format!("v{}{net}{side}", process % 1_000_000));
        let machines = Self { names, cables, net };
        let [a, b] = &machines.cables;
        machines.names.iter().for_each(|name| ip(&format!("netns add {name}")));
        ip(&format!("link add {a} type veth peer name {b}"));
        for (host, (name, cable)) in (1..).zip(machines.names.iter().zip(&machines.cables)) {
            ip(&format!("link set {cable} netns {name}"));
            ip(&format!("-n {name} addr add 10.9.{net}.{host}/24 dev {cable}"));
            ip(&format!("-n {name} link set {cable} up"));
            ip(&format!("-n {name} link set lo up"));
        }
        machines
    }

    /// A command of dora on a machine, which has shared memory of its own: Zenoh hands frames over
    /// in it where it can, and none would pass the cable.
    fn command(&self, machine: usize, args: &str) -> Command {
        let own = r#"mount -t tmpfs none /dev/shm && exec "$@""#;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[machine], "unshare", "--mount"]);
        command.args(["sh", "-c", own, "sh"]).arg(dora()).args(args.split(' '));
        command
    }

    /// Starts the coordinator, both daemons and the dataflow.
    fn start(&self, folder: &Folder) -> Cluster {
        let net = self.net;
        let at = format!("10.9.{net}.1");
        let run = |name: &str, machine, args: String| {
            Running::start(folder, name, &mut self.command(machine, &args))
        };
        let coordinator =
            run("coordinator", 0, format!("coordinator --interface {at} --store memory"));
        let daemon = |name: &str, machine, zenoh: String| {
            let id = ["A", "B"][machine];
            let args = format!("daemon --machine-id {id} -c {at} {zenoh} --zenoh-no-multicast");
            run(name, machine, args)
        };
        let a = daemon("daemon-a", 0, format!("--zenoh-listen {at}:5456"));
        let b = daemon("daemon-b", 1, format!("--zenoh-peer tcp/{at}:5456"));
        let args = format!("start flow.yml --coordinator-addr {at} --attach");
        // Until both daemons have reported to the coordinator it refuses.
        let mut refused = 0;
        let flow = loop {
            let mut flow = run("flow", 0, args.clone());
            if flow.is_running_after(START) {
                break flow;
            }
            refused += 1;
            assert!(refused < 60, "{}", flow.log());
        };
        Cluster { coordinator, a, b, flow }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

struct Cluster {
    coordinator: Running,
    a: Running,
    b: Running,
    flow: Running,
}

impl Cluster {
    fn logs(&self) -> String {
        let logs = [&self.coordinator, &self.a, &self.b, &self.flow].map(Running::log);
        logs.join("\n----\n")
    }

    /// Waits until a node has so many results in the sink's report.
    fn until(&mut self, folder: &Folder, node: &str, least: i64) -> i64 {
        let look = |_: &str| {
            let found = of(&folder.report("machines.json")?, node);
            (found >= least).then_some(found)
        };
        self.a.until(&format!("{least} results of {node}"), look)
    }
}

fn of(report: &Value, node: &str) -> i64 {
    report["nodes"][node]["results"].as_i64().unwrap_or_default()
}

fn lost(report: &Value) -> i64 {
    let count = |why: &str| report["lost"][why].as_i64().unwrap_or_default();
    count("gone") + count("unanswered")
}

const EDITS: &[(&str, &str)] =
    &[("rate=30", "rate=25"), ("model.tflite", "model.tflite at-least=50")];

#[test]
#[ignore = "needs dora and root; cargo xtask doors dora"]
fn a_machine_without_its_cable_is_noticed_and_the_other_goes_on() {
    let folder = Folder::new("machines.yml", EDITS);
    let machines = Machines::new(71);
    let mut cluster = machines.start(&folder);
    cluster.until(&folder, "b", 20);
    ip(&format!("-n {} link set {} down", machines.names[1], machines.cables[1]));
    let before = of(&folder.report("machines.json").unwrap(), "a");
    cluster.until(&folder, "a", before + 60);
    let report = folder.report("machines.json").unwrap();
    assert!(lost(&report) <= 2, "those on their way: {report}\n{}", cluster.logs());
    ip(&format!("-n {} link set {} up", machines.names[1], machines.cables[1]));
}

#[test]
#[ignore = "needs dora and root; cargo xtask doors dora"]
fn a_daemon_that_is_killed_is_noticed_and_the_other_machine_goes_on() {
    let folder = Folder::new("machines.yml", EDITS);
    let machines = Machines::new(72);
    let mut cluster = machines.start(&folder);
    cluster.until(&folder, "b", 20);
    cluster.b.kill();
    let before = of(&folder.report("machines.json").unwrap(), "a");
    cluster.until(&folder, "a", before + 60);
}

#[test]
#[ignore = "needs dora and root; cargo xtask doors dora"]
fn frames_go_on_without_the_coordinator() {
    let folder = Folder::new("machines.yml", EDITS);
    let machines = Machines::new(73);
    let mut cluster = machines.start(&folder);
    cluster.until(&folder, "b", 20);
    cluster.coordinator.kill();
    let report = folder.report("machines.json").unwrap();
    let (a, b) = (of(&report, "a"), of(&report, "b"));
    cluster.until(&folder, "a", a + 40);
    cluster.until(&folder, "b", b + 40);
}
