//! A service, and clients that execute, each in a process of its own.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;
use std::process::{Child, Command};

use serde_json::Value;

use crate::common::{command, json, text, until};

pub(crate) const DRIVER: &str = "nnapi-sample_all";

/// A service and clients in processes of their own.
pub(crate) struct Services {
    dir: tempfile::TempDir,
    pub(crate) service: Child,
    clients: Vec<Child>,
}

impl Services {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let service = command(&["serve", "--driver", DRIVER])
            .env("NNBURST_SERVICE_DIR", dir.path().join("services"))
            .spawn()
            .unwrap();
        let this = Self { dir, service, clients: Vec::new() };
        until("the service", || this.run(&["dump", DRIVER]).output().unwrap().status.success());
        this
    }

    pub(crate) fn run(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("NNBURST_SERVICE_DIR", self.services());
        command
    }

    pub(crate) fn services(&self) -> PathBuf {
        self.dir.path().join("services")
    }

    /// A client that executes until it is killed.
    pub(crate) fn client(&mut self, mode: &str) -> u32 {
        let bench = ["bench", "--builtin", "add1", "--runs", "4000000000", "--period", "1"];
        let bench = [&bench[..], &["--device", DRIVER, "--mode", mode]].concat();
        self.clients.push(self.run(&bench).spawn().unwrap());
        self.clients.last().unwrap().id()
    }

    pub(crate) fn said(&self, args: &[&str]) -> String {
        let output = self.run(args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn dump(&self) -> Value {
        json(self.said(&["dump", "--json"]).trim_end())
    }

    /// The models and bursts of a client.
    pub(crate) fn works(&self, pid: u32) -> Vec<Value> {
        let dump = self.dump();
        let clients = dump["clients"].as_array().unwrap();
        let client = clients.iter().find(|client| client["pid"] == pid);
        client.map(|client| client["works"].as_array().unwrap().clone()).unwrap_or_default()
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        for child in self.clients.iter_mut().chain([&mut self.service]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
