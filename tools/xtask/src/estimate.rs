//! `cargo xtask estimate`: what inner loops of kernels take on Arm cores that aren't at hand, by
//! LLVM's machine code analyser. These are estimates: every load hits L1, branches are foretold,
//! and the scheduling models are LLVM's.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::arm::TARGET;
use crate::cargo::{Cargo, Outcome, target_folder};
use crate::symbols::is_installed;

/// The analyser; before LLVM 17 it took the N1 for an A57.
const ANALYSER: (&str, &str) = ("llvm-mca-19", "llvm-19");

/// A core: what it is called, the model that LLVM has of it or of its twin, and its clock on the
/// board in GHz.
struct Core {
    name: &'static str,
    model: &'static str,
    clock: f64,
    has_dot_products: bool,
}

/// LLVM schedules the A72 as an A57, and the A76 is the Neoverse N1's core.
const CORES: [Core; 2] = [
    Core { name: "A72", model: "cortex-a72", clock: 1.8, has_dot_products: false },
    Core { name: "A76", model: "neoverse-n1", clock: 2.4, has_dot_products: true },
];

/// Kernels, each with a part of its function's mangled name.
const KERNELS: [(&str, &str); 7] = [
    ("gemm_f32", "gemm8gemm_f324neon4tile"),
    ("gemm_i8", "gemm7gemm_i84neon3run"),
    ("gemm_i8, dot products", "gemm7gemm_i88neon_dot3run"),
    ("gemv_i8", "gemv7gemv_i84neon3run"),
    ("gemv_i8, dot products", "gemv7gemv_i88neon_dot3run"),
    ("depthwise_i8, 3 x 3", "depthwise_i86strips4neon5three"),
    ("depthwise_i8, 5 x 5", "depthwise_i86strips4neon4five"),
];

/// Instructions that multiply and add, with the multiplications in each.
const PRODUCTS: [(&str, u32); 7] = [
    ("fmla", 4),
    ("sdot", 16),
    ("udot", 16),
    ("smlal", 8),
    ("smlal2", 8),
    ("smull", 8),
    ("smull2", 8),
];

/// Loops of fewer products are no kernel's.
const FEWEST: u32 = 32;

/// Repetitions of a loop that are simulated.
const ROUNDS: u32 = 100;

/// An innermost loop.
struct Loop {
    body: String,
    products: u32,
    has_dot_products: bool,
}

/// Prints a table of the loops with most products of each function.
pub(crate) fn run() -> Outcome {
    let (analyser, package) = ANALYSER;
    if !is_installed(analyser, package)? {
        return Ok(());
    }
    let args = ["rustc", "--package", "nnburst-kernels", "--lib", "--release", "--target", TARGET];
    Cargo::new("estimate").args(args).args(["--", "--emit", "asm"]).run()?;
    let text = std::fs::read_to_string(assembly()?).map_err(|error| error.to_string())?;
    println!("| loop | multiplications | core | cycles | per cycle | G/s at its clock |");
    println!("|---|---|---|---|---|---|");
    let loops = loops(&text);
    for (name, part) in KERNELS {
        let function = loops.iter().find(|(function, _)| function.contains(part));
        let (_, found) = function.ok_or_else(|| format!("{name} has no loop of products"))?;
        for core in CORES.iter().filter(|core| core.has_dot_products || !found.has_dot_products) {
            let cycles = cycles(&found.body, core)?;
            let products = f64::from(found.products);
            let rate = products / cycles;
            let (core, speed) = (core.name, rate * core.clock);
            println!("| {name} | {products} | {core} | {cycles:.1} | {rate:.1} | {speed:.1} |");
        }
    }
    Ok(())
}

/// The newest file of assembly of the kernels.
fn assembly() -> Result<PathBuf, String> {
    let folder = target_folder().join(TARGET).join("release/deps");
    let files = std::fs::read_dir(&folder).map_err(|error| error.to_string())?.flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("nnburst_kernels-") && name.ends_with(".s"))
    };
    let files = files.map(|file| file.path()).filter(is_ours);
    let newest = files.max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok());
    newest.ok_or_else(|| format!("{} has no assembly of the kernels", folder.display()))
}

/// The loop with most products of each function, by the function's mangled name: from a label to
/// the jump back to it, with no other label between.
fn loops(text: &str) -> HashMap<&str, Loop> {
    let mut best: HashMap<&str, Loop> = HashMap::new();
    let (mut function, mut label, mut body) = ("", "", String::new());
    for line in text.lines() {
        let code = line.trim();
        let name = line.strip_suffix(':').filter(|name| !name.starts_with('\t'));
        if let Some(name) = name.filter(|name| !name.starts_with(".Ltmp")) {
            if !name.starts_with('.') {
                function = name;
            }
            label = name;
            body.clear();
        } else if line.starts_with('\t') && !code.starts_with('.') && !code.starts_with("//") {
            let _ = writeln!(body, "{code}");
            let jumps = ["b", "cb", "tb"].iter().any(|jump| code.starts_with(jump));
            if jumps && code.split_whitespace().next_back() == Some(label) {
                let found = Loop::of(&body);
                let least = best.get(function).map_or(FEWEST, |known| known.products);
                if found.products >= least {
                    best.insert(function, found);
                }
            }
        }
    }
    best
}

impl Loop {
    fn of(body: &str) -> Self {
        let names = || body.lines().filter_map(|line| line.split_whitespace().next());
        let products = |name| PRODUCTS.iter().find(|(known, _)| *known == name);
        let products = names().filter_map(products).map(|(_, count)| count).sum();
        let has_dot_products = names().any(|name| matches!(name, "sdot" | "udot"));
        Self { body: body.to_owned(), products, has_dot_products }
    }
}

/// Cycles of one round of a loop.
fn cycles(body: &str, core: &Core) -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", ANALYSER.0);
    let mut analyser = Command::new(ANALYSER.0)
        .args(["-mtriple=aarch64-linux-gnu", "-instruction-info=0", "-resource-pressure=0"])
        .args([format!("-mcpu={}", core.model), format!("-iterations={ROUNDS}")])
        .arg("-mattr=+dotprod,+fp16")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = analyser.stdin.take() {
        input.write_all(body.as_bytes()).map_err(failed)?;
    }
    let output = analyser.wait_with_output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let total = text.lines().find_map(|line| line.strip_prefix("Total Cycles:"));
    let total = total.and_then(|total| total.trim().parse::<f64>().ok());
    Ok(total.ok_or_else(|| format!("{}: {text}", ANALYSER.0))? / f64::from(ROUNDS))
}
